#include "engine/llama/test_node.h"

#include <utility>

#include "contract/check.h"
#include "node/node.h"

namespace rhizome {

TestNode::TestNode(const std::string& socket_path, uint64_t memory_bytes) : counters_(Counters::local()) {
  auto node = Node::start({.socket_path = socket_path, .memory_bytes = memory_bytes}, *counters_);
  RHIZOME_CHECK(node);
  node_ = std::move(*node);
}

TestNode::~TestNode() = default;

}  // namespace rhizome
