// What writes the fields of a frame's body, and what reads them, in the order in which visit() names them.
//
// Thread-safety: belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "attach/frame.h"
#include "block/little_endian.h"

namespace rhizome {

// The fields that consist of others; Fields has the rest.
template <class Fields>
class CompoundFields {
 public:
  template <class Number>
  void keyspace(Number& number) {
    self().number(number.number);
    self().number(number.generation);
  }
  template <class Staged>
  void staged(Staged& tokens) {
    self().number(tokens.offset);
    self().number(tokens.count);
  }
  template <class Handle>
  void handle(Handle& handle) {
    self().number(handle.high);
    self().number(handle.low);
  }
  template <class Blocks>
  void blocks(Blocks& blocks) {
    keyspace(blocks.keyspace);
    staged(blocks.tokens);
    self().number(blocks.first);
    self().number(blocks.end);
    self().require(blocks.first <= blocks.end);
  }

 private:
  friend Fields;
  CompoundFields() = default;
  Fields& self() { return static_cast<Fields&>(*this); }
};

class FieldWriter : public CompoundFields<FieldWriter> {
 public:
  explicit FieldWriter(std::vector<std::byte>& out) : out_(out) {}

  bool is_ok() const { return is_ok_; }
  void require(bool holds) { is_ok_ = is_ok_ && holds; }

  template <class Number>
  void number(Number value) {
    append_little(out_, value);
  }
  template <class Choice>
  void choice(Choice value, int count) {
    require(static_cast<int>(value) < count);
    number(static_cast<uint32_t>(value));
  }
  template <class Text>
  void text(const Text& text, size_t limit) {
    require(text.size() <= limit);
    if (!is_ok_) return;
    number(static_cast<uint32_t>(text.size()));
    const size_t at = out_.size();
    out_.resize(at + text.size());
    if (!text.empty()) std::memcpy(out_.data() + at, text.data(), text.size());
  }

 private:
  std::vector<std::byte>& out_;
  bool is_ok_ = true;
};

// After the first field that is not there all others stay as they are.
class FieldReader : public CompoundFields<FieldReader> {
 public:
  explicit FieldReader(std::span<const std::byte> body) : left_(body) {}

  // All fields were there, and nothing else.
  bool is_done() const { return is_ok_ && left_.empty(); }
  void require(bool holds) { is_ok_ = is_ok_ && holds; }

  template <class Number>
  void number(Number& value) {
    require(left_.size() >= sizeof value);
    if (!is_ok_) return;
    value = load_little<Number>(left_.data());
    left_ = left_.subspan(sizeof value);
  }
  template <class Choice>
  void choice(Choice& value, int count) {
    uint32_t chosen = 0;
    number(chosen);
    require(chosen < static_cast<uint32_t>(count));
    if (is_ok_) value = static_cast<Choice>(chosen);
  }
  template <class Text>
  void text(Text& text, size_t limit) {
    uint32_t bytes = 0;
    number(bytes);
    require(bytes <= limit && bytes <= left_.size());
    if (!is_ok_) return;
    text.resize(bytes);
    if (bytes > 0) std::memcpy(text.data(), left_.data(), bytes);
    left_ = left_.subspan(bytes);
  }

 private:
  std::span<const std::byte> left_;
  bool is_ok_ = true;
};

}  // namespace rhizome
