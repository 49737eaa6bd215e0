// For tests: a keeper in the same process, which holds the memory of stores beyond their end.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>

#include "index/remote_readers.h"
#include "machine/descriptor.h"
#include "machine/mapping.h"
#include "slab/memory_keeper.h"
#include "store/store.h"

namespace rhizome {

class NoReaders final : public RemoteReaders {
 public:
  void collect(std::vector<RunId>&) override {}
  void take_touches(const std::function<void(RunId, uint32_t)>&) override {}
};

class TestKeeper final : public MemoryKeeper {
 public:
  void keep(KeptKind kind, uint32_t number, const Mapping& memory) override {
    held_[{life_, kind, number}] = {Descriptor(::fcntl(memory.descriptor(), F_DUPFD_CLOEXEC, 0)),
                                    memory.bytes().size()};
  }
  void drop(KeptKind kind, uint32_t number) override { EXPECT_EQ(held_.erase({life_, kind, number}), 1u); }

  // What the next store is given; what is held from then on is of its life.
  std::vector<KeptMemory> next_life() {
    std::vector<KeptMemory> kept;
    for (const auto& [name, piece] : held_) {
      const auto& [life, kind, number] = name;
      Descriptor again(::fcntl(piece.descriptor.number(), F_DUPFD_CLOEXEC, 0));
      kept.push_back({kind, life, number, std::move(*Mapping::adopt_shared(std::move(again), piece.bytes))});
    }
    ++life_;
    return kept;
  }
  // As a node does once it has started.
  void drop_former() {
    std::erase_if(held_, [this](const auto& piece) { return std::get<0>(piece.first) != life_; });
  }
  size_t count(KeptKind kind) const {
    size_t found = 0;
    for (const auto& [name, piece] : held_)
      found += std::get<1>(name) == kind;
    return found;
  }

 private:
  struct Held {
    Descriptor descriptor;
    uint64_t bytes = 0;
  };
  std::map<std::tuple<uint64_t, KeptKind, uint32_t>, Held> held_;
  uint64_t life_ = 1;
};

}  // namespace rhizome
