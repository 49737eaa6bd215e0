// Servers that the bench starts, watches and stops.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bench/http_chat.h"
#include "bench/locations.h"
#include "bench/metrics.h"
#include "concurrency/mutex.h"
#include "contract/result.h"
#include "machine/process.h"

namespace rhizome::bench {

enum class Side { kStock, kRhizome };

struct ServerPlan {
  Side side = Side::kStock;
  std::string model;
  std::vector<std::string> arguments;        // llama-server's own: -t 2 -np 4 -c 8192
  std::vector<std::string> cache_arguments;  // only for our side: --exact, --memory 256MiB
  // With the others of this fleet that do; else it keeps its cache for itself.
  bool shares_host = false;
};

// The process of one server and, on our side, of what it started.
//
// Thread-safety: chat() from any thread, the rest from the thread that started it.
class Server {
 public:
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  ChatAnswer chat(const ChatRequest& request) const { return bench::chat(port_, request); }

  // CPU time of all its processes so far; steadier than wall time on a busy machine.
  double cpu_seconds() const;
  uint64_t resident_bytes() const;
  // Empty on the stock side.
  Metrics metrics() const;

  // SIGKILL: no time for anything. It is gone when this returns.
  void kill();

  Side side() const { return side_; }
  uint16_t port() const { return port_; }

 private:
  friend class Fleet;
  Server(class Fleet& fleet, Side side) : fleet_(fleet), side_(side) {}

  class Fleet& fleet_;
  Side side_;
  uint16_t port_ = 0;
  uint16_t metrics_port_ = 0;
  pid_t pid_ = 0;
};

// All servers of a run. Each leaves its log in one folder of the run, removed at the end of a run that succeeded.
//
// Thread-safety: start() from any thread, which must outlive the server that it started; interrupt() from any.
class Fleet {
 public:
  static Result<std::unique_ptr<Fleet>> create(const Locations& locations);
  ~Fleet();

  // Ready to be measured: it answered once, and our side has finished hashing the weights.
  // The reason of a failure has been written to standard error.
  Result<std::unique_ptr<Server>> start(const ServerPlan& plan);

  // Asks all servers to end, which ends the requests that wait for them; nothing starts any more. A server that is in
  // the middle of a long batch does not hear it: `by_force` ends it.
  void interrupt(bool by_force);
  bool interrupted() const { return interrupted_.load(); }

  // Keeps the logs and says where they are.
  void keep_logs() { keep_logs_ = true; }
  const std::string& folder() const { return folder_; }

 private:
  friend class Server;
  Fleet(const Locations& locations, std::string folder) : locations_(locations), folder_(std::move(folder)) {}

  std::vector<std::string> command(const ServerPlan& plan) const;
  Status spawn(const ServerPlan& plan, Server& server, const std::string& log);
  Status wait_until_listening(Server& server, const std::string& log);
  Status wait_until_healthy(const Server& server);
  Status warm_up(const Server& server);
  bool is_running(pid_t pid);
  void stop(pid_t pid);
  void kill(pid_t pid);

  const Locations locations_;
  const std::string folder_;
  bool keep_logs_ = false;
  std::atomic<uint32_t> started_ = 0;
  std::atomic<bool> interrupted_ = false;
  Mutex mutex_;
  std::map<pid_t, Child> children_ GUARDED_BY(mutex_);
};

}  // namespace rhizome::bench
