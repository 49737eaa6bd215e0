// What the pages that a node and a client share have in common: a head that names them, and how one is found in memory.
//
// Thread-safety: may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <type_traits>

#include "contract/check.h"
#include "contract/result.h"

namespace rhizome {

inline constexpr uint64_t kSharedPageBytes = 4096;

// At the head of a page, written once by who makes it.
struct SharedPageHead {
  uint64_t magic = 0;
  uint32_t version = 0;
  uint32_t unused = 0;
};

// Makes a Page in zeroed memory of exactly its size.
template <class Page>
Page& make_shared_page(std::span<std::byte> memory) {
  static_assert(sizeof(Page) == kSharedPageBytes && std::is_standard_layout_v<Page>);
  RHIZOME_CHECK(memory.size() == sizeof(Page) && reinterpret_cast<uintptr_t>(memory.data()) % alignof(Page) == 0);
  Page* const page = new (memory.data()) Page;
  page->head = {Page::kMagic, Page::kVersion, 0};
  return *page;
}

// The Page that another process has made in the memory. kInvalidArgument: another size. kFailedPrecondition: not such a
// page, or of another version.
template <class Page>
Result<Page*> find_shared_page(std::span<std::byte> memory) {
  if (memory.size() != sizeof(Page) || reinterpret_cast<uintptr_t>(memory.data()) % alignof(Page) != 0) {
    return fail(Code::kInvalidArgument, "a shared page has another size");
  }
  Page* const page = std::launder(reinterpret_cast<Page*>(memory.data()));
  if (page->head.magic != Page::kMagic) return fail(Code::kFailedPrecondition, "a shared page is something else");
  if (page->head.version != Page::kVersion) return fail(Code::kFailedPrecondition, "a shared page has another version");
  return page;
}

}  // namespace rhizome
