// Serves GET /metrics and GET /health on 127.0.0.1, from a thread of its own.
//
// Both are open to everybody on this machine; nothing that they show tells one request from another.
#pragma once

#include <cstdint>
#include <memory>

#include "contract/result.h"
#include "telemetry/counters.h"

namespace rhizome {

// Thread-safety: may be used from any thread; destroyed by one.
class MetricsServer {
 public:
  // Port 0 picks a free one. `counters` must outlive the server. kAlreadyExists: the port is in
  // use; kPermissionDenied: the port is not this user's to take.
  static Result<std::unique_ptr<MetricsServer>> start(uint16_t port, const Counters& counters);

  // Closes what is open, also in the middle of a request, and waits for the thread.
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  uint16_t port() const;

  // What /health answers from now on: 200 for nullptr (as at the start), else 503 with this word as
  // the status. A string literal without quotes or backslashes.
  void set_trouble(const char* status);

 private:
  struct Listener;
  explicit MetricsServer(std::unique_ptr<Listener> listener);

  std::unique_ptr<Listener> listener_;
};

}  // namespace rhizome
