// The notice page: what a node tells one client without a message. One memory file a client, made by the node as
// Sharing::kReadOnly; the client maps it Access::kRead and can change nothing.
//
// States of `revocations`: it only goes up, by the node, and never stays the same when something was taken back.
// Taking back (node): revocations + 1; from then on the client's slots are ignored, and what they held may be reused.
// Reading in place (client): note revocations(), pin, read, was_revoked_since(noted). False means that all that was
// read was still pinned while it was read. Why a race is safe: the node counts before it reuses, so a reader that saw a
// reused byte sees the count (release in revoke(), acquire fence in was_revoked_since()). A counter and not a flag: two
// revocations would merge into one that was seen already.
//
// `unmap_generation` only goes up as well: chunks that were retired up to it are to be unmapped, which the client
// acknowledges in its lease page. `incarnation` is written once, before the page is handed over.
//
// `stirrings` counts up, and wakes who sleeps on it, when what this client waits for may have changed. Waiting
// (client): note stirrings(), look and ask, then sleep_until_stirred(): a change behind the look makes it return at
// once. It says nothing more, and a node that was killed never stirs: whoever sleeps has a time of his own at which he
// looks again.
//
// Thread-safety: one writer; readers may be used from any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "attach/shared_page.h"
#include "contract/result.h"
#include "machine/shared_futex.h"

namespace rhizome {

struct NoticePage {
  static constexpr uint64_t kMagic = 0x45'43'49'54'4f'4e'5a'52;  // "RZNOTICE"
  static constexpr uint32_t kVersion = 2;

  SharedPageHead head;
  uint64_t incarnation = 0;
  std::atomic<uint32_t> revocations{0};
  std::atomic<uint32_t> unmap_generation{0};
  std::atomic<uint32_t> stirrings{0};
  std::array<std::byte, kSharedPageBytes - 36> unused{};
};
static_assert(sizeof(NoticePage) == kSharedPageBytes && offsetof(NoticePage, incarnation) == 16 &&
              offsetof(NoticePage, revocations) == 24 && offsetof(NoticePage, unmap_generation) == 28 &&
              offsetof(NoticePage, stirrings) == 32);

class NoticeWriter {
 public:
  // `memory`: kSharedPageBytes of zeros, which outlive the writer. An incarnation is one life of a node.
  NoticeWriter(std::span<std::byte> memory, uint64_t incarnation) : page_(&make_shared_page<NoticePage>(memory)) {
    page_->incarnation = incarnation;
  }

  void revoke() { page_->revocations.fetch_add(1, std::memory_order_seq_cst); }
  uint32_t revocations() const { return page_->revocations.load(std::memory_order_relaxed); }
  void stir() {
    page_->stirrings.fetch_add(1, std::memory_order_release);  // pairs with stirrings()
    shared_futex_wake(page_->stirrings);
  }
  void ask_to_unmap(uint32_t generation) {
    page_->unmap_generation.store(generation, std::memory_order_release);  // pairs with unmap_generation()
  }

 private:
  NoticePage* page_;
};

class NoticeReader {
 public:
  // As find_shared_page(); the memory outlives the reader.
  static Result<NoticeReader> attach(std::span<std::byte> memory) {
    const Result<NoticePage*> page = find_shared_page<NoticePage>(memory);
    if (!page) return fail(page.error());
    return NoticeReader(**page);
  }

  uint64_t incarnation() const { return page_->incarnation; }
  uint32_t revocations() const { return page_->revocations.load(std::memory_order_acquire); }  // pairs with revoke()
  // After the last use of what was pinned.
  bool was_revoked_since(uint32_t noted) const {
    std::atomic_thread_fence(std::memory_order_acquire);  // the reads before it are over; pairs with revoke()
    return page_->revocations.load(std::memory_order_relaxed) != noted;
  }
  uint32_t unmap_generation() const { return page_->unmap_generation.load(std::memory_order_acquire); }
  uint32_t stirrings() const { return page_->stirrings.load(std::memory_order_acquire); }  // pairs with stir()
  // Returns once stirrings() is not `noted` any more, at the deadline (on monotonic_now_ns()), or without a reason.
  void sleep_until_stirred(uint32_t noted, uint64_t deadline_ns) const {
    shared_futex_wait(page_->stirrings, noted, deadline_ns);
  }

 private:
  explicit NoticeReader(const NoticePage& page) : page_(&page) {}

  const NoticePage* page_;
};

}  // namespace rhizome
