#include "index/run.h"

#include <algorithm>
#include <utility>

#include "contract/check.h"

namespace rhizome {

static_assert(sizeof(Token) == sizeof(uint32_t) && sizeof(Location) == sizeof(uint32_t));

void Run::append(std::span<const Token> tokens, std::span<const Location> locations, uint32_t block_tokens) {
  RHIZOME_CHECK(tokens.size() == locations.size() * block_tokens);
  const uint32_t added = static_cast<uint32_t>(locations.size());
  if (length_ + added > capacity_) {
    // A run that grows block by block is copied only now and then.
    const uint32_t capacity = length_ == 0 ? added : std::max(length_ + added, capacity_ + capacity_ / 2);
    move_to(capacity, 0, length_, block_tokens);
  }
  std::copy(tokens.begin(), tokens.end(), words_.get() + size_t{length_} * block_tokens);
  std::copy(locations.begin(), locations.end(), words_.get() + size_t{capacity_} * block_tokens + length_);
  length_ += added;
}

void Run::keep(uint32_t first, uint32_t length, uint32_t block_tokens) {
  RHIZOME_CHECK(first + length <= length_);
  if (first == 0 && length * 2 >= capacity_) {
    length_ = length;
  } else {
    move_to(length, first, length, block_tokens);
  }
}

void Run::move_to(uint32_t capacity, uint32_t first, uint32_t length, uint32_t block_tokens) {
  std::unique_ptr<uint32_t[]> words;
  if (capacity > 0) {
    words = std::make_unique_for_overwrite<uint32_t[]>(size_t{capacity} * (block_tokens + 1));
    const uint32_t* tokens = words_.get() + size_t{first} * block_tokens;
    const uint32_t* locations = words_.get() + size_t{capacity_} * block_tokens + first;
    std::copy(tokens, tokens + size_t{length} * block_tokens, words.get());
    std::copy(locations, locations + length, words.get() + size_t{capacity} * block_tokens);
  }
  words_ = std::move(words);
  capacity_ = capacity;
  length_ = length;
}

}  // namespace rhizome
