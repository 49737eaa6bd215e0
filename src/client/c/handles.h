// What the handles of the C interface stand for. A handle is a number in the shape of a pointer, which is looked up and
// never followed: one that was closed, was made up or is of another kind is known as such.
//
//   u32 generation | u4 kind | u24 place in the table | u4 0b1101, by which no address of an object looks like it
//
// An object lives until its handle is closed and nobody holds it any more.
//
// Thread-safety: the table may be used from any thread, without a lock but to add and to destroy; a Held belongs to one
// thread at a time.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "concurrency/mutex.h"

namespace rhizome {

enum class HandleKind : uint8_t { kClient = 1, kKeyspace = 2, kHit = 3, kDraft = 4, kAnnouncement = 5 };

class HandleObject {
 public:
  virtual ~HandleObject() = default;
};

class HandleTable {
 public:
  static constexpr uint32_t kObjectsMax = 1 << 24;

  struct Slot;

  HandleTable() = default;
  ~HandleTable();  // with no object in it
  HandleTable(const HandleTable&) = delete;
  HandleTable& operator=(const HandleTable&) = delete;

  // The process's own, which is never destroyed: threads may be at work when it ends.
  static HandleTable& of_process();

  // Zero: there are too many.
  uint64_t add(HandleKind kind, std::unique_ptr<HandleObject> object) EXCLUDES(mutex_);
  // Keeps the object; null for what is no open handle of that kind.
  Slot* hold(uint64_t handle, HandleKind kind);
  // For who holds it already, whether its handle is open or not.
  Slot* hold_again(Slot* held);
  static HandleObject* object_of(const Slot& slot);
  // May destroy the object.
  void let_go(Slot& slot) EXCLUDES(mutex_);
  // False: it is no open handle of that kind.
  bool close(uint64_t handle, HandleKind kind) EXCLUDES(mutex_);

 private:
  static constexpr uint32_t kSegmentSlots = 4096;

  Slot* find(uint64_t handle) const;

  std::array<std::atomic<Slot*>, kObjectsMax / kSegmentSlots> segments_{};
  Mutex mutex_;
  std::vector<uint32_t> free_ GUARDED_BY(mutex_);
  uint32_t used_ GUARDED_BY(mutex_) = 0;
};

// An object that stays for as long as this does.
template <class T>
class Held {
 public:
  Held() = default;
  ~Held() { reset(); }
  Held(Held&& other) noexcept : slot_(std::exchange(other.slot_, nullptr)) {}
  Held& operator=(Held&& other) noexcept {
    if (this != &other) {
      reset();
      slot_ = std::exchange(other.slot_, nullptr);
    }
    return *this;
  }

  // Nothing in it: `handle` is none, is closed, or stands for something else.
  static Held of(const void* handle) {
    Held held;
    held.slot_ = HandleTable::of_process().hold(std::bit_cast<uint64_t>(handle), T::kKind);
    return held;
  }

  // Another one of the same.
  Held again() const {
    Held held;
    held.slot_ = HandleTable::of_process().hold_again(slot_);
    return held;
  }

  explicit operator bool() const { return slot_ != nullptr; }
  T& operator*() const { return static_cast<T&>(*HandleTable::object_of(*slot_)); }
  T* operator->() const { return &**this; }

 private:
  void reset() {
    if (HandleTable::Slot* const slot = std::exchange(slot_, nullptr)) HandleTable::of_process().let_go(*slot);
  }

  HandleTable::Slot* slot_ = nullptr;
};

}  // namespace rhizome
