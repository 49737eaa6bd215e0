#include "index/named_blocks.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "contract/check.h"

namespace rhizome {
namespace {

constexpr std::string_view kKeyspace = "named blocks";
// Lines of the table that are on their way from memory at a time.
constexpr size_t kAhead = 32;
constexpr uint64_t kSweptAtLeast = 1024;

IndexOptions one_element_each(IndexOptions options) {
  options.roots_max = 1;
  return options;
}

// Calls visit(name, i) for each, with the table's lines fetched ahead.
template <class Visit>
void for_each_name(const NameTable& table, std::span<const uint64_t> names, Visit&& visit) {
  for (size_t i = 0; i < std::min(kAhead, names.size()); ++i)
    table.prefetch(names[i]);
  for (size_t i = 0; i < names.size(); ++i) {
    if (i + kAhead < names.size()) table.prefetch(names[i + kAhead]);
    visit(names[i], i);
  }
}

}  // namespace

NamedBlocks::NamedBlocks(const NamedBlocksOptions& options)
    : blocks_max_(options.blocks_max), index_(one_element_each(options.index)), names_(options.blocks_max) {
  const Result<Root> root = index_.open(std::as_bytes(std::span(kKeyspace)));
  RHIZOME_CHECK(root.has_value());
  root_ = *root;
  Result<Mapping> mapped = Mapping::anonymous((uint64_t{blocks_max_} / 64 + 1) * sizeof(uint64_t));
  RHIZOME_CHECK(mapped.has_value());
  removed_mapping_ = std::move(*mapped);
  removed_bits_ = {reinterpret_cast<std::atomic<uint64_t>*>(removed_mapping_.bytes().data()),
                   removed_mapping_.bytes().size() / sizeof(uint64_t)};
}

void NamedBlocks::prefault(uint64_t blocks, uint64_t run_bytes) {
  index_.prefault(run_bytes);
  names_.prefault(blocks);
}

Match NamedBlocks::lookup(std::span<const uint64_t> hashes, std::span<Location> out) {
  Match match = index_.lookup(root_, hashes, out);
  // The pin keeps these locations from being given to other blocks meanwhile.
  const std::span<const Location> found = out.first(match.blocks);
  const auto live_end = std::find_if(found.begin(), found.end(), [&](Location at) { return is_removed(at); });
  match.blocks = static_cast<uint32_t>(live_end - found.begin());
  return match;
}

void NamedBlocks::set_removed(Location location, bool removed) {
  std::atomic<uint64_t>& word = removed_bits_[location / 64];
  const uint64_t bit = uint64_t{1} << (location % 64);
  // One thread writes. For a location that was never used, the insert that follows publishes this with the block.
  const uint64_t before = word.load(std::memory_order_relaxed);
  word.store(removed ? before | bit : before & ~bit, std::memory_order_relaxed);
}

Status NamedBlocks::take_locations(size_t count) {
  if (free_.size() + (blocks_max_ - never_used_) < count)
    return fail(Code::kResourceExhausted, "blocks_max are stored");
  taken_.resize(count);
  canonical_.resize(count);
  for (Location& location : taken_) {
    if (free_.empty()) {
      location = never_used_++;
    } else {
      location = free_.back();
      free_.pop_back();
      set_removed(location, false);
    }
  }
  return {};
}

void NamedBlocks::give_back(std::span<const Location> locations) {
  free_.insert(free_.end(), locations.rbegin(), locations.rend());
}

void NamedBlocks::name_block(uint64_t name, Location location, bool is_new) {
  if (!is_new) {
    if (is_removed(location)) {
      set_removed(location, false);
      --tombstones_;
    } else if (names_.name_of(location) == name) {
      return;
    } else {
      names_.take(names_.name_of(location));
    }
  }
  const std::optional<Location> before = names_.put(name, location);
  if (!before) return;
  set_removed(*before, true);
  ++tombstones_;
}

Result<Handle> NamedBlocks::store(Handle& handle, std::span<const uint64_t> hashes, uint32_t first_block,
                                  std::span<const uint64_t> names) {
  if (names.empty() || hashes.size() != first_block + names.size())
    return fail(Code::kInvalidArgument, "hashes and names do not fit together");
  if (const Status taken = take_locations(names.size()); !taken) return fail(taken.error());
  Result<Inserted> inserted = index_.insert(root_, handle, hashes, first_block, taken_, canonical_);
  if (!inserted) {
    give_back(taken_);
    return fail(inserted.error());
  }
  const size_t stored_before = inserted->stored_before;
  give_back(std::span(taken_).first(stored_before));
  in_tree_ += names.size() - stored_before;
  for_each_name(names_, names, [&](uint64_t name, size_t i) { name_block(name, canonical_[i], i >= stored_before); });
  return std::move(inserted->handle);
}

size_t NamedBlocks::remove_by_hash(std::span<const uint64_t> names) {
  size_t known = 0;
  for_each_name(names_, names, [&](uint64_t name, size_t) {
    const std::optional<Location> location = names_.take(name);
    if (!location) return;
    set_removed(*location, true);
    ++known;
  });
  tombstones_ += known;
  // Each block that is looked at for nothing was paid for by one that was removed.
  if (tombstones_ - std::min(tombstones_, tombstones_kept_) > std::max(kSweptAtLeast, in_tree_ / 2)) sweep();
  return known;
}

void NamedBlocks::sweep() {
  std::vector<Location> gone(tombstones_);
  const size_t swept = index_.evict_if(gone, [this](Location location) { return is_removed(location); });
  give_back(std::span(gone).first(swept));
  in_tree_ -= swept;
  tombstones_ -= swept;
  tombstones_kept_ = tombstones_;
}

Status NamedBlocks::release(Handle handle) {
  return index_.release(std::move(handle));
}

NamedBlocksUsage NamedBlocks::usage() const {
  NamedBlocksUsage usage;
  usage.blocks = in_tree_ - tombstones_;
  usage.tombstones = tombstones_;
  usage.bytes = index_.usage().bytes + names_.bytes() + uint64_t{never_used_} * sizeof(uint64_t) + never_used_ / 8 +
                free_.capacity() * sizeof(Location);
  return usage;
}

}  // namespace rhizome
