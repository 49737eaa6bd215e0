#include "engine/llama/seq_blob.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include <ggml.h>

#include "contract/check.h"
#include "engine/llama/element_transpose.h"

namespace rhizome {
namespace {

constexpr uint64_t kCellBytes = 12;      // position, count of sequences, sequence
constexpr uint64_t kPartHeadBytes = 12;  // type and row bytes, or type and two counts
constexpr uint32_t kLayersMax = 4096;
constexpr uint64_t kRowBytesMax = uint64_t{1} << 32;
constexpr size_t kSectionsMax = 2;

class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <class T>
  T take() {
    T value{};
    if (const std::byte* at = skip(sizeof(T)); at != nullptr) std::memcpy(&value, at, sizeof(T));
    return value;
  }

  const std::byte* skip(uint64_t count) {
    if (failed_ || count > bytes_.size() - offset_) {
      failed_ = true;
      return nullptr;
    }
    const std::byte* at = bytes_.data() + offset_;
    offset_ += count;
    return at;
  }

  bool failed() const { return failed_; }
  bool at_end() const { return !failed_ && offset_ == bytes_.size(); }

 private:
  std::span<const std::byte> bytes_;
  size_t offset_ = 0;
  bool failed_ = false;
};

class Appender {
 public:
  explicit Appender(std::span<std::byte> out) : out_(out) {}

  template <class T>
  void put(T value) {
    std::memcpy(room(sizeof(T)), &value, sizeof(T));
  }

  std::byte* room(uint64_t count) {
    RHIZOME_CHECK(count <= out_.size() - offset_);
    std::byte* at = out_.data() + offset_;
    offset_ += count;
    return at;
  }

  bool full() const { return offset_ == out_.size(); }

 private:
  std::span<std::byte> out_;
  size_t offset_ = 0;
};

// What comes before the parts of a section: streams, cells, each cell, and whether V is transposed, layers.
uint64_t section_head_bytes(uint64_t cells) {
  return 2 * sizeof(uint32_t) + (cells > 0 ? cells * kCellBytes + 2 * sizeof(uint32_t) : 0);
}

// Reads one part's header; the rows stay. False when it cannot be a part of `cells` cells.
bool take_part(Cursor& cursor, bool transposed_value, uint32_t cells, BlobPart& part, const std::byte*& rows) {
  part.type = cursor.take<int32_t>();
  if (transposed_value) {
    part.element_bytes = cursor.take<uint32_t>();
    part.row_bytes = uint64_t{part.element_bytes} * cursor.take<uint32_t>();
  } else {
    part.row_bytes = cursor.take<uint64_t>();
  }
  if (cursor.failed() || part.type < 0 || part.row_bytes == 0 || part.row_bytes > kRowBytesMax) return false;
  rows = cursor.skip(part.row_bytes * cells);
  return rows != nullptr;
}

bool take_cells(Cursor& cursor, uint32_t cells, std::vector<int32_t>* positions) {
  for (uint32_t i = 0; i < cells; ++i) {
    const auto position = cursor.take<int32_t>();
    const auto sequences = cursor.take<uint32_t>();
    cursor.take<int32_t>();  // the sequence's own number; the reader of a blob ignores it
    if (cursor.failed() || position < 0 || sequences != 1) return false;
    if (positions != nullptr) positions->push_back(position);
  }
  return true;
}

// One section, every header taken as the truth.
bool discover_section(Cursor& cursor, uint32_t cells, bool values, uint32_t& streams, BlobSection& section) {
  streams = cursor.take<uint32_t>();
  if (cursor.failed() || streams == 0 || streams > 256) return false;
  bool seen = false;
  for (uint32_t stream = 0; stream < streams; ++stream) {
    const auto count = cursor.take<uint32_t>();
    if (cursor.failed()) return false;
    if (count == 0) continue;
    if (count != cells || seen || !take_cells(cursor, count, nullptr)) return false;
    seen = true;
    const auto transposed = cursor.take<uint32_t>();
    section.layers = cursor.take<uint32_t>();
    if (cursor.failed() || transposed > 1 || section.layers == 0 || section.layers > kLayersMax) return false;
    section.transposed = transposed == 1;
    for (uint32_t i = 0; i < section.layers * (values ? 2 : 1); ++i) {
      BlobPart part;
      part.value = i >= section.layers;
      const std::byte* rows = nullptr;
      if (!take_part(cursor, part.value && section.transposed, cells, part, rows)) return false;
      section.parts.push_back(part);
    }
  }
  return seen;
}

bool same_part(const BlobPart& a, const BlobPart& b) {
  return a.type == b.type && a.row_bytes == b.row_bytes && a.element_bytes == b.element_bytes;
}

// Calls visit(index of the part, the part, bytes a token that a payload has of this section before it) for each part in
// the blob's order: a blob has K of all layers first, a payload has K and V of each layer.
template <class Visit>
void for_each_part(const BlobSection& section, Visit visit) {
  const bool values = section.parts.size() > section.layers;
  for (size_t half = 0; half < (values ? 2 : 1); ++half) {
    uint64_t before = 0;
    for (size_t layer = 0; layer < section.layers; ++layer) {
      const BlobPart& key = section.parts[layer];
      const size_t index = half * section.layers + layer;
      visit(index, section.parts[index], before + (half == 0 ? 0 : key.row_bytes));
      before += key.row_bytes + (values ? section.parts[section.layers + layer].row_bytes : 0);
    }
  }
}

uint64_t token_bytes(const BlobSection& section) {
  uint64_t bytes = 0;
  for (const BlobPart& part : section.parts)
    bytes += part.row_bytes;
  return bytes;
}

ElementType element_type_of(int32_t engine_type) {
  switch (engine_type) {
    case GGML_TYPE_F32:
      return ElementType::kF32;
    case GGML_TYPE_F16:
      return ElementType::kF16;
    case GGML_TYPE_BF16:
      return ElementType::kBf16;
    default:
      return ElementType::kOpaque;
  }
}

// Layers that all have K and V, each as wide as in any other.
struct AlikeLayers {
  ElementType element_type = ElementType::kOpaque;  // so when they are not alike, or quantised
  uint64_t count = 0;
  uint64_t key_bytes = 0;
  uint64_t value_bytes = 0;
};

AlikeLayers alike_layers(const BlobShape& shape) {
  AlikeLayers layers;
  for (const BlobSection& section : shape.sections) {
    if (section.parts.empty() || section.parts.size() != size_t{2} * section.layers) return {};
    if (layers.count == 0) {
      layers.element_type = element_type_of(section.parts.front().type);
      layers.key_bytes = section.parts.front().row_bytes;
      layers.value_bytes = section.parts.back().row_bytes;
    }
    layers.count += section.layers;
    for (const BlobPart& part : section.parts) {
      const uint64_t bytes = part.value ? layers.value_bytes : layers.key_bytes;
      if (element_type_of(part.type) != layers.element_type || part.row_bytes != bytes) return {};
    }
  }
  return layers;
}

}  // namespace

uint64_t BlobShape::payload_bytes(uint64_t tokens) const {
  uint64_t bytes = 0;
  for (const BlobSection& section : sections)
    bytes += token_bytes(section) * tokens;
  return bytes;
}

Layout BlobShape::layout(uint32_t block_tokens) const {
  Layout layout;
  layout.block_tokens = block_tokens;
  for (const BlobSection& section : sections) {
    const bool values = section.parts.size() > section.layers;
    for (uint32_t layer = 0; layer < section.layers; ++layer) {
      for (uint32_t half = 0; half < (values ? 2 : 1); ++half) {
        const BlobPart& part = section.parts[half * section.layers + layer];
        LayoutPart out;
        out.kind = part.value ? LayoutPart::Kind::kValue : LayoutPart::Kind::kKey;
        out.window = section.window ? 1 : 0;
        out.transposed = part.value && section.transposed ? 1 : 0;
        out.layer = layer;
        out.element_type = static_cast<uint32_t>(part.type);
        out.row_bytes = part.row_bytes;
        layout.parts.push_back(out);
      }
    }
  }
  return layout;
}

BlockGeometry BlobShape::geometry(uint32_t block_tokens) const {
  BlockGeometry opaque;
  opaque.element_type = ElementType::kOpaque;
  opaque.layout = ImageLayout::kOpaque;
  const uint64_t bytes = payload_bytes(block_tokens);
  if (block_tokens > BlockGeometry::kTokensMax || bytes > std::numeric_limits<uint32_t>::max()) return opaque;
  opaque.tokens_count = static_cast<uint16_t>(block_tokens);
  opaque.opaque_bytes = static_cast<uint32_t>(bytes);
  const AlikeLayers layers = alike_layers(*this);
  const uint64_t unit = element_bytes(layers.element_type);
  if (unit == 0 || layers.count > BlockGeometry::kLayersMax) return opaque;
  if (layers.key_bytes % unit != 0 || layers.value_bytes % unit != 0) return opaque;
  const uint64_t key_channels = layers.key_bytes / unit;
  const uint64_t value_channels = layers.value_bytes / unit;
  const bool is_divided = kv_heads >= 1 && kv_heads <= BlockGeometry::kHeadsMax && key_channels % kv_heads == 0 &&
                          value_channels % kv_heads == 0;
  const uint64_t heads = is_divided ? kv_heads : 1;
  if (std::max(key_channels, value_channels) / heads > std::numeric_limits<uint16_t>::max()) return opaque;
  BlockGeometry geometry;
  geometry.element_type = layers.element_type;
  geometry.layers_count = static_cast<uint16_t>(layers.count);
  geometry.tokens_count = static_cast<uint16_t>(block_tokens);
  geometry.kv_heads_count = static_cast<uint16_t>(heads);
  geometry.key_width = static_cast<uint16_t>(key_channels / heads);
  geometry.value_width = static_cast<uint16_t>(value_channels / heads);
  return geometry;
}

Result<BlobShape> discover_blob_shape(std::span<const std::byte> blob, uint32_t cells) {
  // Latent attention keeps no V; nothing in the blob says so, but only one reading uses every byte.
  for (const bool values : {true, false}) {
    Cursor cursor(blob);
    if (cursor.take<uint32_t>() != kBlobMagic) break;
    cursor.take<int32_t>();
    BlobShape shape;
    bool understood = true;
    while (understood && !cursor.at_end() && shape.sections.size() < kSectionsMax) {
      BlobSection section;
      uint32_t streams = 0;
      understood = discover_section(cursor, cells, values, streams, section) &&
                   (shape.sections.empty() || streams == shape.streams);
      shape.streams = streams;
      section.window = !shape.sections.empty();
      shape.sections.push_back(std::move(section));
    }
    if (understood && cursor.at_end() && !shape.sections.empty()) return shape;
  }
  return fail(Code::kUnimplemented, "the engine's sequence state has a layout that is not known here");
}

Result<BlobReader> BlobReader::parse(std::span<const std::byte> blob, const BlobShape& shape) {
  const auto refuse = [] { return fail(Code::kDataLoss, "sequence state does not have the probed shape"); };
  Cursor cursor(blob);
  if (cursor.take<uint32_t>() != kBlobMagic) return refuse();
  cursor.take<int32_t>();
  BlobReader reader;
  reader.shape_ = &shape;
  for (const BlobSection& expected : shape.sections) {
    Section& section = reader.sections_.emplace_back();
    if (cursor.take<uint32_t>() != shape.streams || cursor.failed()) return refuse();
    for (uint32_t stream = 0; stream < shape.streams; ++stream) {
      const auto cells = cursor.take<uint32_t>();
      if (cursor.failed()) return refuse();
      if (cells == 0) continue;
      if (!section.positions.empty() || !take_cells(cursor, cells, &section.positions)) return refuse();
      if (cursor.take<uint32_t>() != (expected.transposed ? 1U : 0U)) return refuse();
      if (cursor.take<uint32_t>() != expected.layers) return refuse();
      for (const BlobPart& part : expected.parts) {
        BlobPart found;
        const std::byte* rows = nullptr;
        if (!take_part(cursor, part.value && expected.transposed, cells, found, rows)) return refuse();
        if (!same_part(found, part)) return refuse();
        section.parts.push_back(rows);
      }
    }
    bool in_order = true;
    for (size_t i = 1; i < section.positions.size(); ++i) {
      in_order = in_order && section.positions[i] - int64_t{1} == section.positions[i - 1];
    }
    if (in_order) continue;
    for (uint32_t i = 0; i < section.positions.size(); ++i)
      section.by_position.emplace_back(section.positions[i], i);
    std::sort(section.by_position.begin(), section.by_position.end());
    for (size_t i = 1; i < section.by_position.size(); ++i) {
      if (section.by_position[i].first == section.by_position[i - 1].first) return refuse();
    }
  }
  if (!cursor.at_end()) return refuse();
  return reader;
}

int64_t BlobReader::cell_of(const Section& section, int32_t position) {
  if (section.by_position.empty()) {
    if (section.positions.empty()) return -1;
    const int64_t cell = int64_t{position} - section.positions.front();
    return cell >= 0 && cell < static_cast<int64_t>(section.positions.size()) ? cell : -1;
  }
  const auto at = std::lower_bound(section.by_position.begin(), section.by_position.end(),
                                   std::pair<int32_t, uint32_t>(position, 0));
  return at != section.by_position.end() && at->first == position ? int64_t{at->second} : -1;
}

bool BlobReader::find_runs(const Section& section, uint32_t first, uint32_t tokens, std::vector<CellRun>& runs) {
  runs.clear();
  for (uint32_t i = 0; i < tokens; ++i) {
    const int64_t found = cell_of(section, static_cast<int32_t>(first + i));
    if (found < 0) return false;
    const auto cell = static_cast<uint64_t>(found);
    if (runs.empty() || cell != runs.back().cell + runs.back().count) runs.push_back({i, cell, 0});
    ++runs.back().count;
  }
  return true;
}

bool BlobReader::copy_payload(uint32_t first, uint32_t tokens, std::span<std::byte> payload) const {
  RHIZOME_CHECK(payload.size() == shape_->payload_bytes(tokens));
  std::byte* out = payload.data();
  std::vector<CellRun> runs;
  for (size_t s = 0; s < sections_.size(); ++s) {
    const Section& section = sections_[s];
    const BlobSection& shape = shape_->sections[s];
    if (!find_runs(section, first, tokens, runs)) return false;
    const uint64_t section_cells = section.positions.size();
    for_each_part(shape, [&](size_t index, const BlobPart& part, uint64_t before) {
      std::byte* rows = out + before * tokens;
      for (const CellRun& run : runs) {
        std::byte* to = rows + run.token * part.row_bytes;
        if (part.value && shape.transposed) {
          const uint64_t unit = part.element_bytes;
          const ElementGrid grid{part.row_bytes / unit, run.count, part.element_bytes, section_cells * unit};
          transpose_elements(section.parts[index] + run.cell * unit, grid, to, part.row_bytes);
        } else {
          std::memcpy(to, section.parts[index] + run.cell * part.row_bytes, run.count * part.row_bytes);
        }
      }
    });
    out += token_bytes(shape) * tokens;
  }
  return true;
}

BlobWriter::BlobWriter(const BlobShape& shape, uint32_t block_tokens, uint32_t first, uint32_t blocks_count,
                       uint32_t window_from)
    : shape_(shape),
      block_tokens_(block_tokens),
      first_(first),
      blocks_count_(blocks_count),
      window_from_(window_from) {
  RHIZOME_CHECK(first % block_tokens == 0 && window_from % block_tokens == 0 && blocks_count > 0);
  bytes_ = kBlobHeadBytes;
  for (const BlobSection& section : shape.sections) {
    const uint64_t cells = uint64_t{blocks_count - skipped_blocks(section)} * block_tokens;
    bytes_ += section_head_bytes(cells) + sizeof(uint32_t) * (shape.streams - 1);
    if (cells == 0) continue;
    for (const BlobPart& part : section.parts)
      bytes_ += kPartHeadBytes + part.row_bytes * cells;
  }
}

uint32_t BlobWriter::skipped_blocks(const BlobSection& section) const {
  if (!section.window || window_from_ <= first_) return 0;
  return std::min(blocks_count_, (window_from_ - first_) / block_tokens_);
}

void BlobWriter::write(std::span<const std::span<const std::byte>> payloads, std::span<std::byte> out) const {
  RHIZOME_CHECK(payloads.size() == blocks_count_);
  frame(out);
  for (uint32_t block = 0; block < blocks_count_; ++block)
    put(block, payloads[block], out);
}

void BlobWriter::frame(std::span<std::byte> out) const {
  RHIZOME_CHECK(out.size() == bytes_);
  Appender to(out);
  to.put<uint32_t>(kBlobMagic);
  to.put<int32_t>(0);
  for (const BlobSection& section : shape_.sections) {
    const uint32_t skipped = skipped_blocks(section);
    const uint32_t cells = (blocks_count_ - skipped) * block_tokens_;
    to.put<uint32_t>(shape_.streams);
    to.put<uint32_t>(cells);
    for (uint32_t i = 0; i < cells; ++i) {
      to.put<int32_t>(static_cast<int32_t>(first_ + skipped * block_tokens_ + i));
      to.put<uint32_t>(1);
      to.put<int32_t>(0);
    }
    if (cells > 0) {
      to.put<uint32_t>(section.transposed ? 1 : 0);
      to.put<uint32_t>(section.layers);
      for (const BlobPart& part : section.parts) {
        to.put<int32_t>(part.type);
        if (part.value && section.transposed) {
          to.put<uint32_t>(part.element_bytes);
          to.put<uint32_t>(static_cast<uint32_t>(part.row_bytes / part.element_bytes));
        } else {
          to.put<uint64_t>(part.row_bytes);
        }
        to.room(part.row_bytes * cells);
      }
    }
    for (uint32_t stream = 1; stream < shape_.streams; ++stream)
      to.put<uint32_t>(0);
  }
  RHIZOME_CHECK(to.full());
}

void BlobWriter::put(uint32_t block, std::span<const std::byte> payload, std::span<std::byte> out) const {
  RHIZOME_CHECK(block < blocks_count_ && out.size() == bytes_);
  RHIZOME_CHECK(payload.size() == shape_.payload_bytes(block_tokens_));
  const std::byte* from = payload.data();
  std::byte* to = out.data() + kBlobHeadBytes;
  for (const BlobSection& section : shape_.sections) {
    const uint32_t skipped = skipped_blocks(section);
    const uint64_t blocks = blocks_count_ - skipped;
    to += section_head_bytes(blocks * block_tokens_);
    for_each_part(section, [&](size_t, const BlobPart& part, uint64_t before) {
      const std::byte* rows = from + before * block_tokens_;
      const uint64_t part_bytes = part.row_bytes * block_tokens_;
      if (blocks > 0) to += kPartHeadBytes;
      if (block >= skipped && part.value && section.transposed) {
        const uint64_t unit = part.element_bytes;
        const ElementGrid grid{block_tokens_, part.row_bytes / unit, part.element_bytes, part.row_bytes};
        transpose_elements(rows, grid, to + (block - skipped) * block_tokens_ * unit, blocks * block_tokens_ * unit);
      } else if (block >= skipped) {
        std::memcpy(to + (block - skipped) * part_bytes, rows, part_bytes);
      }
      to += blocks * part_bytes;
    });
    from += token_bytes(section) * block_tokens_;
    to += sizeof(uint32_t) * (shape_.streams - 1);
  }
}

}  // namespace rhizome
