// For tests: sequence blobs put together field by field from the format's description, independently of BlobWriter,
// and shapes of every kind. Each byte of a row says which part, position and byte it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "engine/llama/seq_blob.h"

namespace rhizome {

struct TestSection {
  bool window = false;
  bool transposed = false;
  bool values = true;
  uint32_t layers = 2;
  uint64_t key_bytes = 12;
  uint64_t value_bytes = 8;  // transposed: elements of 2 bytes
};

inline BlobShape make_shape(uint32_t streams, const std::vector<TestSection>& sections) {
  BlobShape shape;
  shape.streams = streams;
  for (const TestSection& from : sections) {
    BlobSection& section = shape.sections.emplace_back();
    section.window = from.window;
    section.transposed = from.transposed;
    section.layers = from.layers;
    for (uint32_t layer = 0; layer < from.layers; ++layer)
      section.parts.push_back(BlobPart{1, false, from.key_bytes, 0});
    for (uint32_t layer = 0; layer < from.layers && from.values; ++layer) {
      section.parts.push_back(BlobPart{8, true, from.value_bytes, from.transposed ? 2U : 0U});
    }
  }
  return shape;
}

struct NamedShape {
  std::string name;
  BlobShape shape;
};

inline std::vector<NamedShape> all_shapes() {
  TestSection dense;
  TestSection transposed;
  transposed.transposed = true;
  TestSection latent;
  latent.values = false;
  TestSection window;
  window.window = true;
  window.layers = 3;
  TestSection transposed_window = window;
  transposed_window.transposed = true;
  return {{"dense", make_shape(1, {dense})},
          {"transposed", make_shape(1, {transposed})},
          {"latent", make_shape(1, {latent})},
          {"window", make_shape(1, {dense, window})},
          {"transposed window", make_shape(1, {transposed, transposed_window})},
          {"four streams", make_shape(4, {dense})},
          {"four streams, window", make_shape(4, {transposed, transposed_window})}};
}

// The byte that row `position` of a part has at `byte`.
inline std::byte row_byte(size_t section, size_t part, int32_t position, uint64_t byte) {
  const uint64_t mixed = (section * 1000003 + part * 10007 + static_cast<uint64_t>(position) * 257 + byte * 31 + 7) *
                         0x9e3779b97f4a7c15ULL;
  return static_cast<std::byte>(mixed >> 56);
}

enum class BlobField : uint8_t { kStructure, kSequence, kPosition, kRow };

struct TestBlob {
  std::vector<std::byte> bytes;
  std::vector<BlobField> fields;  // what each byte is part of
};

class TestBlobBuilder {
 public:
  template <class T>
  void put(T value, BlobField field = BlobField::kStructure) {
    const size_t at = blob_.bytes.size();
    blob_.bytes.resize(at + sizeof(T));
    std::memcpy(blob_.bytes.data() + at, &value, sizeof(T));
    blob_.fields.resize(at + sizeof(T), field);
  }

  void put_part(const BlobSection& section, size_t section_index, size_t part_index,
                const std::vector<int32_t>& positions) {
    const BlobPart& part = section.parts[part_index];
    put<int32_t>(part.type);
    if (!part.value || !section.transposed) {
      put<uint64_t>(part.row_bytes);
      for (const int32_t position : positions) {
        for (uint64_t b = 0; b < part.row_bytes; ++b)
          put(row_byte(section_index, part_index, position, b), BlobField::kRow);
      }
      return;
    }
    const uint64_t elements = part.row_bytes / part.element_bytes;
    put<uint32_t>(part.element_bytes);
    put<uint32_t>(static_cast<uint32_t>(elements));
    for (uint64_t e = 0; e < elements; ++e) {
      for (const int32_t position : positions) {
        for (uint64_t b = 0; b < part.element_bytes; ++b) {
          put(row_byte(section_index, part_index, position, e * part.element_bytes + b), BlobField::kRow);
        }
      }
    }
  }

  TestBlob take() { return std::move(blob_); }

 private:
  TestBlob blob_;
};

// A blob whose cells hold these positions, in this order, in stream `stream`; one list a section.
inline TestBlob make_blob(const BlobShape& shape, const std::vector<std::vector<int32_t>>& positions,
                          uint32_t stream = 0) {
  TestBlobBuilder to;
  to.put<uint32_t>(0xaf143cd8);
  to.put<int32_t>(5, BlobField::kSequence);
  for (size_t s = 0; s < shape.sections.size(); ++s) {
    const BlobSection& section = shape.sections[s];
    to.put<uint32_t>(shape.streams);
    for (uint32_t i = 0; i < shape.streams; ++i) {
      const bool here = i == stream && !positions[s].empty();
      to.put<uint32_t>(here ? static_cast<uint32_t>(positions[s].size()) : 0);
      if (!here) continue;
      for (const int32_t position : positions[s]) {
        to.put<int32_t>(position, BlobField::kPosition);
        to.put<uint32_t>(1);
        to.put<int32_t>(5, BlobField::kSequence);
      }
      to.put<uint32_t>(section.transposed ? 1 : 0);
      to.put<uint32_t>(section.layers);
      for (size_t p = 0; p < section.parts.size(); ++p)
        to.put_part(section, s, p, positions[s]);
    }
  }
  return to.take();
}

inline std::vector<int32_t> positions_from(int32_t first, uint32_t count) {
  std::vector<int32_t> positions(count);
  std::iota(positions.begin(), positions.end(), first);
  return positions;
}

// The canonical payload of the tokens at [first, first + tokens): for each layer its K and its V, token by token.
inline std::vector<std::byte> expected_payload(const BlobShape& shape, uint32_t first, uint32_t tokens) {
  std::vector<std::byte> payload;
  for (size_t s = 0; s < shape.sections.size(); ++s) {
    const BlobSection& section = shape.sections[s];
    for (size_t layer = 0; layer < section.layers; ++layer) {
      for (size_t p = layer; p < section.parts.size(); p += section.layers) {
        for (uint32_t token = 0; token < tokens; ++token) {
          for (uint64_t b = 0; b < section.parts[p].row_bytes; ++b)
            payload.push_back(row_byte(s, p, static_cast<int32_t>(first + token), b));
        }
      }
    }
  }
  return payload;
}

}  // namespace rhizome
