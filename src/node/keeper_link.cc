#include "node/keeper_link.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

#include "telemetry/log.h"

namespace rhizome {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::optional<KeptLabel> label_from(std::span<const std::byte> bytes) {
  std::array<std::byte, sizeof(KeptLabel)> copy{};
  if (bytes.size() != copy.size()) return std::nullopt;
  std::ranges::copy(bytes, copy.begin());
  return std::bit_cast<KeptLabel>(copy);
}

}  // namespace

Result<std::unique_ptr<KeeperLink>> KeeperLink::start(KeeperOptions options) {
  // A supervisor ends all processes of a service with it, also a keeper: where it holds descriptors, it is the one.
  Result<std::unique_ptr<MemoryHolder>> holder =
      options.supervision.held_max > 0 ? reach_supervisor(std::move(options.supervision)) : reach_keeper(options);
  if (!holder) return fail(holder.error());
  Result<std::vector<MemoryHolder::Held>> former = (*holder)->claim();
  if (!former) return fail(former.error());
  return std::unique_ptr<KeeperLink>(new KeeperLink(std::move(*holder), std::move(*former)));
}

std::vector<KeptMemory> KeeperLink::take(std::string_view tenant, uint32_t block_tokens) {
  const Digest wanted = sha256(bytes_of(tenant));
  std::vector<KeptMemory> taken;
  for (MemoryHolder::Held& former : former_) {
    const std::optional<KeptLabel> label = label_from(former.label);
    if (!label || label->format != KeptLabel::kFormat || label->tenant != wanted) continue;
    if (label->block_tokens != block_tokens) continue;
    Result<Mapping> memory = Mapping::adopt_shared(std::move(former.descriptor), label->bytes);
    if (!memory) {
      log_warning("memory that a former node has left is not taken: {}", memory.error().reason);
      continue;
    }
    taken.push_back({label->kind, label->life, label->number, std::move(*memory)});
  }
  return taken;
}

void KeeperLink::drop_former() {
  size_t strange = 0;
  for (MemoryHolder::Held& former : former_) {
    if (former.descriptor.is_open()) ++strange;
    note(holder_->drop(former.label));
  }
  former_.clear();
  if (strange > 0) {
    log_info("{} pieces of memory of a former node are of another version or configuration: they are dropped", strange);
  }
}

// Nobody waits for it a second time.
void KeeperLink::note(const Status& told) {
  if (told || is_gone_.exchange(true, std::memory_order_relaxed)) return;
  log_warning("the keeper does not answer: this node's memory ends with it ({})", told.error().reason);
}

bool KeeperLink::is_there() {
  if (is_gone_.load(std::memory_order_relaxed)) return false;
  if (holder_->is_there()) return true;
  note(fail(Code::kUnavailable, "it has ended"));
  return false;
}

void KeeperLink::hold(const KeptLabel& label, int descriptor) {
  if (!is_gone_.load(std::memory_order_relaxed)) note(holder_->hold(std::bit_cast<LabelBytes>(label), descriptor));
}

void KeeperLink::drop(const KeptLabel& label) {
  if (!is_gone_.load(std::memory_order_relaxed)) note(holder_->drop(std::bit_cast<LabelBytes>(label)));
}

void KeeperLink::end() {
  holder_->end();
}

DomainKeeper::DomainKeeper(KeeperLink& link, std::string_view tenant, uint32_t block_tokens, uint64_t life)
    : link_(link), common_{.life = life, .block_tokens = block_tokens, .tenant = sha256(bytes_of(tenant))} {}

KeptLabel DomainKeeper::label_of(KeptKind kind, uint32_t number) const {
  KeptLabel label = common_;
  label.kind = kind;
  label.number = number;
  return label;
}

void DomainKeeper::keep(KeptKind kind, uint32_t number, const Mapping& memory) {
  KeptLabel label = label_of(kind, number);
  label.bytes = memory.bytes().size();
  {
    const MutexLock lock(mutex_);
    bytes_[{kind, number}] = label.bytes;
  }
  link_.hold(label, memory.descriptor());
}

void DomainKeeper::drop(KeptKind kind, uint32_t number) {
  KeptLabel label = label_of(kind, number);
  {
    const MutexLock lock(mutex_);
    const auto known = bytes_.extract({kind, number});
    if (known.empty()) return;
    label.bytes = known.mapped();
  }
  link_.drop(label);
}

}  // namespace rhizome
