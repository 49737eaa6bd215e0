#include "index/keyspaces.h"

#include <algorithm>
#include <string_view>

#include "contract/check.h"

namespace rhizome {
namespace {

std::string_view text_of(std::span<const std::byte> encoding) {
  return {reinterpret_cast<const char*>(encoding.data()), encoding.size()};
}

}  // namespace

Root Keyspaces::find(std::span<const std::byte> encoding) const {
  const auto known = by_encoding_.find(text_of(encoding));
  return known == by_encoding_.end() ? Root() : known->second;
}

Root Keyspaces::add(std::span<const std::byte> encoding, RunId run) {
  RHIZOME_CHECK(!full());
  Root root;
  if (!returned_.empty()) {
    root = returned_.back();
    returned_.pop_back();
  } else {
    root.value = ++used_;
  }
  by_encoding_.emplace(text_of(encoding), root);
  ++open_;
  set(root, run);
  return root;
}

void Keyspaces::set(Root root, RunId run) {
  slots_[root.value].store(uint64_t{root.generation} << 32 | run, std::memory_order_release);  // pairs with find()
}

void Keyspaces::take_out(Root root) {
  std::erase_if(by_encoding_, [&](const auto& known) { return known.second == root; });
  --open_;
  set({root.value, root.generation + 1}, 0);
  // A number whose generations are used up would name an old tree again.
  if (root.generation + 1 != UINT32_MAX) returned_.push_back({root.value, root.generation + 1});
}

std::vector<Root> Keyspaces::all() const {
  std::vector<Root> roots;
  for (const auto& [encoding, root] : by_encoding_)
    roots.push_back(root);
  return roots;
}

}  // namespace rhizome
