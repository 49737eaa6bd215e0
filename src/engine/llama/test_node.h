// For tests: a node in this process, for engines whose clients attach to it.
//
// Thread-safety: one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "telemetry/counters.h"

namespace rhizome {

class Node;

class TestNode {
 public:
  TestNode(const std::string& socket_path, uint64_t memory_bytes);
  ~TestNode();
  TestNode(const TestNode&) = delete;
  TestNode& operator=(const TestNode&) = delete;

 private:
  const std::unique_ptr<Counters> counters_;
  std::unique_ptr<Node> node_;
};

}  // namespace rhizome
