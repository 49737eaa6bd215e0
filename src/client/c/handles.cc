#include "client/c/handles.h"

#include "contract/check.h"

namespace rhizome {
namespace {

// A slot's word: u32 generation | u4 kind | u1 open | u27 uses. Being open is a use, too.
constexpr uint32_t kGenerationShift = 32;
constexpr uint32_t kKindShift = 28;
constexpr uint64_t kOpen = 1ull << 27;
constexpr uint64_t kUses = kOpen - 1;

constexpr uint32_t kPlaceShift = 4;
constexpr uint64_t kMark = 0b1101;
constexpr uint64_t kMarkMask = 0b1111;

uint64_t word_of(uint32_t generation, HandleKind kind) {
  return uint64_t{generation} << kGenerationShift | uint64_t{static_cast<uint8_t>(kind)} << kKindShift | kOpen;
}

// What the word of an open slot has above its uses, by what the handle says.
uint64_t word_named_by(uint64_t handle) {
  return handle >> kKindShift << kKindShift | kOpen;
}

bool is_of(uint64_t handle, HandleKind kind) {
  const auto kind_bits = static_cast<uint8_t>(handle >> kKindShift & 0xf);
  return (handle & kMarkMask) == kMark && kind_bits == static_cast<uint8_t>(kind);
}

}  // namespace

struct HandleTable::Slot {
  std::atomic<uint64_t> word{word_of(1, HandleKind::kClient) & ~kOpen};
  uint32_t place = 0;
  HandleObject* object = nullptr;  // written while the slot is nobody's else
};

HandleTable& HandleTable::of_process() {
  static HandleTable& table = *new HandleTable();
  return table;
}

HandleTable::~HandleTable() {
  const MutexLock lock(mutex_);
  RHIZOME_CHECK(free_.size() == used_);
  for (const std::atomic<Slot*>& segment : segments_)
    delete[] segment.load(std::memory_order_relaxed);
}

uint64_t HandleTable::add(HandleKind kind, std::unique_ptr<HandleObject> object) {
  uint32_t place = 0;
  {
    const MutexLock lock(mutex_);
    if (free_.empty()) {
      if (used_ == kObjectsMax) return 0;
      std::atomic<Slot*>& segment = segments_[used_ / kSegmentSlots];
      if (segment.load(std::memory_order_relaxed) == nullptr) {
        free_.reserve(used_ + kSegmentSlots);                               // so that giving one back cannot fail
        segment.store(new Slot[kSegmentSlots], std::memory_order_release);  // pairs with find()
      }
      free_.push_back(used_++);
    }
    place = free_.back();
    free_.pop_back();
  }
  Slot& slot = segments_[place / kSegmentSlots].load(std::memory_order_acquire)[place % kSegmentSlots];
  slot.place = place;
  slot.object = object.release();
  const auto generation = static_cast<uint32_t>(slot.word.load(std::memory_order_relaxed) >> kGenerationShift);
  slot.word.store(word_of(generation, kind) + 1, std::memory_order_release);  // pairs with hold()
  return uint64_t{generation} << kGenerationShift | uint64_t{static_cast<uint8_t>(kind)} << kKindShift |
         uint64_t{place} << kPlaceShift | kMark;
}

HandleTable::Slot* HandleTable::find(uint64_t handle) const {
  const auto place = static_cast<uint32_t>(handle >> kPlaceShift) % kObjectsMax;
  Slot* const segment = segments_[place / kSegmentSlots].load(std::memory_order_acquire);
  return segment == nullptr ? nullptr : &segment[place % kSegmentSlots];
}

HandleTable::Slot* HandleTable::hold(uint64_t handle, HandleKind kind) {
  if (!is_of(handle, kind)) return nullptr;
  Slot* const slot = find(handle);
  if (slot == nullptr) return nullptr;
  uint64_t word = slot->word.load(std::memory_order_relaxed);
  do {
    if ((word & ~kUses) != word_named_by(handle) || (word & kUses) == kUses) return nullptr;
  } while (!slot->word.compare_exchange_weak(word, word + 1, std::memory_order_acquire, std::memory_order_relaxed));
  return slot;
}

HandleTable::Slot* HandleTable::hold_again(Slot* held) {
  if (held != nullptr) held->word.fetch_add(1, std::memory_order_relaxed);
  return held;
}

HandleObject* HandleTable::object_of(const Slot& slot) {
  return slot.object;
}

void HandleTable::let_go(Slot& slot) {
  const uint64_t before = slot.word.fetch_sub(1, std::memory_order_acq_rel);
  RHIZOME_DCHECK((before & kUses) > 0);
  if ((before & kUses) != 1) return;
  // Nobody holds it and nobody can: it is not open. What it holds in turn goes with it.
  const std::unique_ptr<HandleObject> object(std::exchange(slot.object, nullptr));
  const auto generation = static_cast<uint32_t>(before >> kGenerationShift) + 1;
  slot.word.store(uint64_t{generation == 0 ? 1 : generation} << kGenerationShift, std::memory_order_relaxed);
  const MutexLock lock(mutex_);
  free_.push_back(slot.place);
}

bool HandleTable::close(uint64_t handle, HandleKind kind) {
  if (!is_of(handle, kind)) return false;
  Slot* const slot = find(handle);
  if (slot == nullptr) return false;
  uint64_t word = slot->word.load(std::memory_order_relaxed);
  do {
    if ((word & ~kUses) != word_named_by(handle)) return false;
  } while (
      !slot->word.compare_exchange_weak(word, word & ~kOpen, std::memory_order_acq_rel, std::memory_order_relaxed));
  let_go(*slot);
  return true;
}

}  // namespace rhizome
