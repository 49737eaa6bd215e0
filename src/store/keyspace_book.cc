#include "store/keyspace_book.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "block/little_endian.h"
#include "codec/geometry_record.h"
#include "slab/block_copy.h"

namespace rhizome {
namespace {

constexpr uint64_t kEndBytes = sizeof(uint64_t);
constexpr uint64_t kHeadBytes = 2 * sizeof(uint32_t);
constexpr uint64_t kMemoryPage = 4096;

uint64_t up(uint64_t value, uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

uint64_t record_bytes(uint64_t encoding_bytes) {
  return up(kHeadBytes + kGeometryRecordBytes + encoding_bytes, kEndBytes);
}

}  // namespace

uint64_t KeyspaceBook::bytes_needed(const Keyspace& keyspace) const {
  const uint64_t bytes = record_bytes(keyspace.encoding().size());
  if (!pages_.empty() && bytes <= pages_.back().bytes().size() - end_) return 0;
  return std::max(kPageBytes, up(kEndBytes + bytes, kMemoryPage));
}

Status KeyspaceBook::add(const Keyspace& keyspace, const BlockGeometry& geometry) {
  if (const uint64_t bytes = bytes_needed(keyspace); bytes > 0) {
    Result<Mapping> page = Mapping::shareable(bytes);
    if (!page) return fail(page.error());
    keeper_.keep(KeptKind::kKeyspaces, static_cast<uint32_t>(pages_.size()), *page);
    pages_.push_back(std::move(*page));
    end_ = kEndBytes;
  }
  const std::span<std::byte> page = pages_.back().bytes();
  const std::span<const std::byte> encoding = keyspace.encoding();
  const auto encoding_bytes = static_cast<uint32_t>(encoding.size());
  std::span<std::byte> to = page.subspan(end_, record_bytes(encoding_bytes));
  const auto record = encode_geometry(geometry);
  copy_block_bytes(to.first(sizeof encoding_bytes), std::as_bytes(std::span(&encoding_bytes, 1)));
  copy_block_bytes(to.subspan(kHeadBytes, record.size()), record);
  copy_block_bytes(to.subspan(kHeadBytes + record.size(), encoding.size()), encoding);
  end_ += to.size();
  // The process may end at any instant: what is counted is there.
  std::atomic_ref(*reinterpret_cast<uint64_t*>(page.data())).store(end_, std::memory_order_release);
  return {};
}

std::vector<RecordedKeyspace> read_keyspace_page(std::span<const std::byte> page) {
  std::vector<RecordedKeyspace> read;
  if (page.size() < kEndBytes) return read;
  const uint64_t end = std::min<uint64_t>(load_little<uint64_t>(page.data()), page.size());
  for (uint64_t at = kEndBytes; at < end;) {
    const std::span<const std::byte> rest = page.first(end).subspan(at);
    if (rest.size() < kHeadBytes + kGeometryRecordBytes) break;
    const uint64_t bytes = record_bytes(load_little<uint32_t>(rest.data()));
    if (bytes > rest.size()) break;
    const Result<BlockGeometry> geometry = decode_geometry(rest.subspan(kHeadBytes, kGeometryRecordBytes));
    Result<Keyspace> keyspace =
        Keyspace::decode(rest.subspan(kHeadBytes + kGeometryRecordBytes, load_little<uint32_t>(rest.data())));
    if (geometry && keyspace) read.push_back({std::move(*keyspace), *geometry});
    at += bytes;
  }
  return read;
}

}  // namespace rhizome
