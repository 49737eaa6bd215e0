#include "bench/index_order.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "index/index.h"

namespace rhizome::bench {
namespace {

constexpr std::string_view kKeyspace = "replay";

// A block's token and its location are its number.
class IndexReplay {
 public:
  IndexReplay(const Trace& trace, uint32_t capacity)
      : trace_(trace),
        capacity_(capacity),
        index_({.block_tokens = 1, .memory_bytes = uint64_t{4} << 30, .recency = Recency::kExact}),
        found_(trace.longest),
        canonical_(trace.longest),
        evicted_(trace.longest) {}

  Result<Hits> run() {
    const Result<Root> root = index_.open(std::as_bytes(std::span(kKeyspace)));
    if (!root) return fail(root.error());
    root_ = *root;
    Hits hits;
    for (const Request& request : trace_.requests) {
      Match match = index_.lookup(root_, request.blocks, found_);
      if (!std::equal(found_.begin(), found_.begin() + match.blocks, request.blocks.begin()))
        return fail(Code::kInternal, "the index found a block that is not the one asked for");
      hits.add(request, match.blocks);
      const size_t wanted = request.blocks.size() - match.blocks;
      if (const Status status = make_room(wanted, request, match.blocks); !status) return fail(status.error());
      if (const Status status = store(request, match, std::min(wanted, capacity_ - size_)); !status)
        return fail(status.error());
    }
    return hits;
  }

 private:
  Status make_room(size_t wanted, const Request& request, size_t pinned) {
    if (capacity_ - size_ >= wanted) return {};
    const std::span<Location> out = std::span(evicted_).first(wanted - (capacity_ - size_));
    const size_t gone = index_.evict(out);
    for (size_t i = 0; i < gone; ++i) {
      if (std::find(request.blocks.begin(), request.blocks.begin() + pinned, out[i]) != request.blocks.begin() + pinned)
        return fail(Code::kInternal, "the index evicted a block that is pinned");
    }
    size_ -= gone;
    return {};
  }

  Status store(const Request& request, Match& match, size_t count) {
    if (count == 0) return index_.release(std::move(match.handle));
    const std::span<const Token> tokens = std::span(request.blocks).first(match.blocks + count);
    const std::span<const Location> locations = tokens.subspan(match.blocks);
    Result<Inserted> inserted =
        index_.insert(root_, match.handle, tokens, match.blocks, locations, std::span(canonical_).first(count));
    if (!inserted) return fail(inserted.error());
    size_ += count;
    return index_.release(std::move(inserted->handle));
  }

  const Trace& trace_;
  const size_t capacity_;
  Index index_;
  Root root_;
  size_t size_ = 0;
  std::vector<Location> found_;
  std::vector<Location> canonical_;
  std::vector<Location> evicted_;
};

}  // namespace

Result<Hits> replay_index(const Trace& trace, uint32_t capacity) {
  return IndexReplay(trace, capacity).run();
}

}  // namespace rhizome::bench
