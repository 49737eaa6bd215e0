// The supervisor of a service as who holds memory: systemd's descriptor store. A label is a name there, in hexadecimal.
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "concurrency/mutex.h"
#include "machine/clock.h"
#include "machine/supervisor.h"
#include "node/memory_holder.h"
#include "telemetry/log.h"

namespace rhizome {
namespace {

// The store waits for this.
constexpr uint64_t kTellWaitNs = 500'000'000;
// Names of descriptors that are ours, apart from a socket that somebody else's unit passes.
constexpr std::string_view kNamePrefix = "rhizome-";

std::string name_of(std::span<const std::byte> label) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string name(kNamePrefix);
  for (const std::byte byte : label) {
    name += kDigits[static_cast<size_t>(byte) >> 4];
    name += kDigits[static_cast<size_t>(byte) & 15];
  }
  return name;
}

std::optional<uint8_t> digit(char letter) {
  if (letter >= '0' && letter <= '9') return static_cast<uint8_t>(letter - '0');
  if (letter >= 'a' && letter <= 'f') return static_cast<uint8_t>(letter - 'a' + 10);
  return std::nullopt;
}

// Empty: it is none of ours.
std::vector<std::byte> label_in(std::string_view name) {
  std::vector<std::byte> label;
  if (!name.starts_with(kNamePrefix)) return label;
  name.remove_prefix(kNamePrefix.size());
  if (name.size() % 2 != 0) return label;
  for (size_t i = 0; i < name.size(); i += 2) {
    const auto high = digit(name[i]);
    const auto low = digit(name[i + 1]);
    if (!high || !low) return {};
    label.push_back(static_cast<std::byte>(*high << 4 | *low));
  }
  return label;
}

class SupervisorHolder final : public MemoryHolder {
 public:
  SupervisorHolder(LocalSocket socket, Supervision supervision)
      : supervision_(std::move(supervision)), socket_(std::move(socket)) {}

  Result<std::vector<Held>> claim() override {
    std::vector<Held> held;
    const MutexLock lock(mutex_);
    for (PassedDescriptor& passed : supervision_.passed) {
      std::vector<std::byte> label = label_in(passed.name);
      if (label.empty()) continue;
      names_.insert(passed.name);
      held.push_back({std::move(label), std::move(passed.descriptor)});
    }
    supervision_.passed.clear();
    return held;
  }

  // Once the store is full the supervisor says nothing and holds no more: the next node computes what is not there.
  Status hold(std::span<const std::byte> label, int descriptor) override {
    const std::string name = name_of(label);
    const Result<Descriptor> again = open_again(descriptor);
    if (!again) return fail(again.error());
    const MutexLock lock(mutex_);
    names_.insert(name);
    if (names_.size() > supervision_.held_max) {
      log_once("node.supervisor",
               "the service's supervisor holds {} descriptors and no more: not all memory of this "
               "node is kept when it is killed (FileDescriptorStoreMax=)",
               supervision_.held_max);
    }
    const int number = again->number();
    return tell("FDSTORE=1\nFDPOLL=0\nFDNAME=" + name, std::span(&number, 1));
  }

  Status drop(std::span<const std::byte> label) override {
    const std::string name = name_of(label);
    const MutexLock lock(mutex_);
    names_.erase(name);
    return tell("FDSTOREREMOVE=1\nFDNAME=" + name, {});
  }

  // Where it is gone, so are all its services.
  bool is_there() override { return true; }

  void end() override {
    const MutexLock lock(mutex_);
    for (const std::string& name : names_) {
      if (!tell("FDSTOREREMOVE=1\nFDNAME=" + name, {})) return;
    }
    names_.clear();
  }

 private:
  Status tell(std::string_view text, std::span<const int> descriptors) REQUIRES(mutex_) {
    return socket_.send(std::as_bytes(std::span(text)), monotonic_now_ns() + kTellWaitNs, descriptors);
  }

  Mutex mutex_;
  Supervision supervision_ GUARDED_BY(mutex_);
  LocalSocket socket_ GUARDED_BY(mutex_);
  std::set<std::string> names_ GUARDED_BY(mutex_);  // of what it holds for us
};

}  // namespace

Result<std::unique_ptr<MemoryHolder>> reach_supervisor(Supervision supervision) {
  if (supervision.held_max == 0) return fail(Code::kFailedPrecondition, "the supervisor holds no descriptors");
  Result<LocalSocket> socket = connect_to_supervisor(supervision.socket_path);
  if (!socket) return fail(socket.error());
  return std::make_unique<SupervisorHolder>(std::move(*socket), std::move(supervision));
}

}  // namespace rhizome
