// The C interface: the library, clients and keyspaces.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <rhizome/rhizome.h>

#include "block/keyspace.h"
#include "block/reason.h"
#include "client/c/call.h"
#include "client/c/objects.h"
#include "client/client.h"
#include "codec/block_geometry.h"
#include "codec/geometry_record.h"
#include "telemetry/counters.h"
#include "telemetry/log.h"

namespace rhizome {
namespace {

constexpr uint64_t kMemoryBytesMax = uint64_t{16} << 40;
constexpr uint64_t kStagingBytesMax = uint64_t{64} << 30;
constexpr uint64_t kWaitMaxNs = uint64_t{365} * 86400 * 1'000'000'000;
constexpr uint32_t kBlockTokensDefault = 16;
constexpr size_t kFieldsMax = 64;

// Whoever compiled against these goes on working: fields are added behind them.
constexpr size_t kEmbeddedOptionsBytesMin = 48;
constexpr size_t kAttachedOptionsBytesMin = 48;
constexpr size_t kKeyspaceOptionsBytesMin = 56;
static_assert(sizeof(rhizome_embedded_options) >= kEmbeddedOptionsBytesMin);
static_assert(sizeof(rhizome_attached_options) >= kAttachedOptionsBytesMin);
static_assert(sizeof(rhizome_keyspace_options) >= kKeyspaceOptionsBytesMin);
static_assert(sizeof(rhizome_keyspace_field) == 24);
static_assert(RHIZOME_FIELD_NUMERICS == static_cast<int>(KeyspaceTag::kNumerics));
static_assert(RHIZOME_LAYOUT_LATENT == static_cast<int>(ImageLayout::kLatent));
static_assert(RHIZOME_LAYOUT_OPAQUE == static_cast<int>(ImageLayout::kOpaque));
static_assert(RHIZOME_ELEMENT_I8 == static_cast<int>(ElementType::kI8));
static_assert(RHIZOME_LOG_SILENT == static_cast<int>(LogLevel::kSilent));

Result<Held<ClientObject>> client_of(const rhizome_client* handle) {
  return held_by<ClientObject>(handle, "this is no open client");
}

Status give_client(rhizome_client** out, std::unique_ptr<Counters> counters, Result<std::unique_ptr<Client>> client) {
  if (!client) return fail(client.error());
  return give(out, std::make_unique<ClientObject>(std::move(counters), std::move(*client)));
}

Result<VerifyPolicy> policy_of(uint32_t verify) {
  switch (verify) {
    case RHIZOME_VERIFY_TIER:
      return VerifyPolicy::kTier;
    case RHIZOME_VERIFY_SAMPLE:
      return VerifyPolicy::kSample;
    case RHIZOME_VERIFY_ALWAYS:
      return VerifyPolicy::kAlways;
    default:
      return fail(Code::kInvalidArgument, "verify is no rhizome_verify");
  }
}

Status open_embedded(const rhizome_embedded_options* given, rhizome_client** out) {
  if (out == nullptr) return fail(Code::kInvalidArgument, "there is no room for the client");
  *out = nullptr;
  rhizome_embedded_options options = RHIZOME_EMBEDDED_OPTIONS_INIT;
  const Status read = read_options(options, given, kEmbeddedOptionsBytesMin);
  if (!read) return read;
  const Result<VerifyPolicy> verify = policy_of(options.verify);
  if (!verify) return fail(verify.error());
  if (options.memory_bytes == 0) return fail(Code::kInvalidArgument, "memory_bytes is zero");
  if (options.memory_bytes > kMemoryBytesMax) return fail(Code::kInvalidArgument, "memory_bytes is above 16 TiB");
  const bool has_directory = options.disk_directory != nullptr && options.disk_directory[0] != '\0';
  if (has_directory != (options.disk_bytes > 0)) {
    return fail(Code::kInvalidArgument, "disk_directory and disk_bytes are set together");
  }
  EmbeddedOptions chosen;
  chosen.verify = *verify;
  chosen.memory_bytes = options.memory_bytes;
  chosen.block_tokens = options.block_tokens == 0 ? kBlockTokensDefault : options.block_tokens;
  if (has_directory) {
    chosen.disk.directory = options.disk_directory;
    chosen.disk.bytes = options.disk_bytes;
    chosen.disk.write_bytes_per_day = options.disk_bytes_each_day;
  }
  std::unique_ptr<Counters> counters = Counters::local();
  auto client = make_embedded_client(std::move(chosen), *counters);
  return give_client(out, std::move(counters), std::move(client));
}

Status attach(const rhizome_attached_options* given, rhizome_client** out) {
  if (out == nullptr) return fail(Code::kInvalidArgument, "there is no room for the client");
  *out = nullptr;
  rhizome_attached_options options = RHIZOME_ATTACHED_OPTIONS_INIT;
  const Status read = read_options(options, given, kAttachedOptionsBytesMin);
  if (!read) return read;
  const Result<VerifyPolicy> verify = policy_of(options.verify);
  if (!verify) return fail(verify.error());
  if (options.reserved != 0) return fail(Code::kUnimplemented, "reserved is not zero");
  if (options.socket_path == nullptr || options.socket_path[0] == '\0') {
    return fail(Code::kInvalidArgument, "socket_path is missing");
  }
  if (options.staging_bytes > kStagingBytesMax) return fail(Code::kInvalidArgument, "staging_bytes is above 64 GiB");
  AttachedOptions chosen;
  chosen.verify = *verify;
  chosen.socket_path = options.socket_path;
  if (options.tenant != nullptr) chosen.tenant = options.tenant;
  if (options.staging_bytes != 0) chosen.staging_bytes = options.staging_bytes;
  if (options.reply_wait_ns != 0) chosen.reply_wait_ns = std::min(options.reply_wait_ns, kWaitMaxNs);
  std::unique_ptr<Counters> counters = Counters::local();
  auto client = make_attached_client(std::move(chosen), *counters);
  return give_client(out, std::move(counters), std::move(client));
}

std::string stats_text(const Counters& counters) {
  std::string text;
  for (uint32_t number = 0; number < kCountersCount; ++number) {
    const auto counter = static_cast<Counter>(number);
    const CounterInfo& about = counter_info(counter);
    text += about.name;
    if (!about.labels.empty()) text.append("{").append(about.labels).append("}");
    const uint64_t value = counters.get(counter);
    const bool is_time = about.kind == CounterKind::kNanoseconds;
    text.append(" ").append(is_time ? std::to_string(static_cast<double>(value) / 1e9) : std::to_string(value));
    text += '\n';
  }
  return text;
}

Status write_stats(const Counters& counters, std::span<char> buffer, size_t* needed) {
  const std::string text = stats_text(counters);
  if (needed != nullptr) *needed = text.size() + 1;
  if (!buffer.empty()) {
    const size_t length = std::min(text.size(), buffer.size() - 1);
    std::memcpy(buffer.data(), text.data(), length);
    buffer[length] = '\0';
  }
  if (buffer.size() <= text.size()) return fail(Code::kOutOfRange, "the text is longer than the buffer");
  return {};
}

template <class Narrow>
bool narrows(uint32_t value) {
  return value <= std::numeric_limits<Narrow>::max();
}

Result<BlockGeometry> geometry_of(const rhizome_keyspace_options& options, uint32_t block_tokens) {
  const bool fits = narrows<uint16_t>(options.layers_count) && narrows<uint16_t>(options.kv_heads_count) &&
                    narrows<uint16_t>(options.key_width) && narrows<uint16_t>(options.value_width) &&
                    narrows<uint8_t>(options.layout) && narrows<uint8_t>(options.element_type) &&
                    options.keys_before_rope <= 1;
  BlockGeometry geometry;
  geometry.layout = static_cast<ImageLayout>(options.layout);
  geometry.element_type = static_cast<ElementType>(options.element_type);
  if (geometry.is_opaque() && options.element_type == 0) geometry.element_type = ElementType::kOpaque;
  geometry.keys_before_rope = options.keys_before_rope == 1;
  geometry.layers_count = static_cast<uint16_t>(options.layers_count);
  geometry.tokens_count = static_cast<uint16_t>(block_tokens);
  geometry.kv_heads_count = static_cast<uint16_t>(options.kv_heads_count);
  geometry.key_width = static_cast<uint16_t>(options.key_width);
  geometry.value_width = static_cast<uint16_t>(options.value_width);
  geometry.opaque_bytes = options.opaque_bytes;
  if (!fits || !geometry.is_valid()) return fail(Code::kInvalidArgument, "the shape of the blocks makes no sense");
  return geometry;
}

// The shape is always part of the identity; for opaque blocks the engine has to say more than a size.
Result<Keyspace> keyspace_of(std::span<const rhizome_keyspace_field> fields, const BlockGeometry& geometry) {
  const auto record = encode_geometry(geometry);
  std::vector<std::byte> layout(record.begin(), record.end());
  KeyspaceBuilder builder;
  if (!geometry.is_opaque()) builder.set(KeyspaceTag::kLayout, layout);
  uint64_t seen = 0;
  for (const rhizome_keyspace_field& field : fields) {
    if (field.tag < RHIZOME_FIELD_ENGINE || field.tag > RHIZOME_FIELD_NUMERICS || field.reserved != 0) {
      return fail(Code::kInvalidArgument, "a field of the keyspace has no known tag");
    }
    if ((seen >> field.tag & 1) != 0) return fail(Code::kInvalidArgument, "a field of the keyspace occurs twice");
    seen |= uint64_t{1} << field.tag;
    if (field.bytes == nullptr && field.bytes_count > 0) {
      return fail(Code::kInvalidArgument, "the bytes of a field are NULL");
    }
    if (field.bytes_count > uint64_t{1} << 20) return fail(Code::kInvalidArgument, "a field is longer than 1 MiB");
    std::span<const std::byte> bytes(static_cast<const std::byte*>(field.bytes), field.bytes_count);
    if (field.tag == RHIZOME_FIELD_LAYOUT && !bytes.empty()) {
      layout.insert(layout.end(), bytes.begin(), bytes.end());
      bytes = layout;
    }
    builder.set(static_cast<KeyspaceTag>(field.tag), bytes);
  }
  return builder.seal();
}

Status open_keyspace(const rhizome_client* handle, const rhizome_keyspace_options* given, rhizome_keyspace** out) {
  if (out == nullptr) return fail(Code::kInvalidArgument, "there is no room for the keyspace");
  *out = nullptr;
  Result<Held<ClientObject>> client = client_of(handle);
  if (!client) return fail(client.error());
  rhizome_keyspace_options options = RHIZOME_KEYSPACE_OPTIONS_INIT;
  const Status read = read_options(options, given, kKeyspaceOptionsBytesMin);
  if (!read) return read;
  if (options.fields == nullptr || options.fields_count > kFieldsMax) {
    return fail(Code::kInvalidArgument, "the fields are NULL, or too many");
  }
  const Result<BlockGeometry> geometry = geometry_of(options, (*client)->client->block_tokens());
  if (!geometry) return fail(geometry.error());
  const Result<Keyspace> keyspace = keyspace_of({options.fields, options.fields_count}, *geometry);
  if (!keyspace) return fail(keyspace.error());
  const Result<KeyspaceId> id = (*client)->client->open(*keyspace, *geometry);
  if (!id) return fail(id.error());
  return give(out, std::make_unique<KeyspaceObject>(std::move(*client), *id, geometry->raw_bytes()));
}

}  // namespace
}  // namespace rhizome

using namespace rhizome;

// --- the library

const char* rhizome_code_name(int32_t code) {
  const bool is_known = code >= RHIZOME_OK && code <= RHIZOME_UNAUTHENTICATED;
  return code_name(is_known ? static_cast<Code>(code) : Code::kUnknown).data();  // of a literal: it ends with a zero
}

const char* rhizome_version(void) {
  return RHIZOME_VERSION;
}

uint32_t rhizome_abi_version(void) {
  return RHIZOME_ABI_VERSION;
}

rhizome_code rhizome_set_log_level(int32_t level) {
  if (level < RHIZOME_LOG_DEBUG || level > RHIZOME_LOG_SILENT) return RHIZOME_INVALID_ARGUMENT;
  return answer(nullptr, [&]() -> Status {
    set_log_level(static_cast<LogLevel>(level));
    return {};
  });
}

// --- clients

rhizome_code rhizome_client_open_embedded(const rhizome_embedded_options* options, rhizome_client** client,
                                          rhizome_error* error) {
  return answer(error, [&] { return open_embedded(options, client); });
}

rhizome_code rhizome_client_attach(const rhizome_attached_options* options, rhizome_client** client,
                                   rhizome_error* error) {
  return answer(error, [&] { return attach(options, client); });
}

rhizome_code rhizome_client_close(rhizome_client* client) {
  return close_handle<ClientObject>(client);
}

uint32_t rhizome_client_block_tokens(const rhizome_client* client) {
  return value_or(uint32_t{0}, [&] {
    const auto held = Held<ClientObject>::of(client);
    return held ? held->client->block_tokens() : 0;
  });
}

rhizome_code rhizome_client_observe_compute(rhizome_client* client, uint64_t tokens, uint64_t before, double seconds,
                                            rhizome_error* error) {
  return answer(error, [&]() -> Status {
    const Result<Held<ClientObject>> held = client_of(client);
    if (!held) return fail(held.error());
    if (!std::isfinite(seconds) || seconds < 0) return fail(Code::kInvalidArgument, "seconds are no time");
    (*held)->client->observe_compute(tokens, before, seconds);
    return {};
  });
}

rhizome_code rhizome_client_flush(rhizome_client* client, uint64_t wait_ns, rhizome_error* error) {
  return answer(error, [&]() -> Status {
    const Result<Held<ClientObject>> held = client_of(client);
    if (!held) return fail(held.error());
    (*held)->client->flush(std::min(wait_ns, kWaitMaxNs));
    return {};
  });
}

rhizome_code rhizome_client_stats(rhizome_client* client, char* buffer, size_t capacity, size_t* needed,
                                  rhizome_error* error) {
  return answer(error, [&]() -> Status {
    const Result<Held<ClientObject>> held = client_of(client);
    if (!held) return fail(held.error());
    if (buffer == nullptr && capacity > 0) return fail(Code::kInvalidArgument, "the buffer is NULL");
    return write_stats(*(*held)->counters, {buffer, capacity}, needed);
  });
}

// --- keyspaces

rhizome_code rhizome_keyspace_open(rhizome_client* client, const rhizome_keyspace_options* options,
                                   rhizome_keyspace** keyspace, rhizome_error* error) {
  return answer(error, [&] { return open_keyspace(client, options, keyspace); });
}

rhizome_code rhizome_keyspace_close(rhizome_keyspace* keyspace) {
  return close_handle<KeyspaceObject>(keyspace);
}

uint64_t rhizome_keyspace_payload_bytes(const rhizome_keyspace* keyspace) {
  return value_or(uint64_t{0}, [&] {
    const auto held = Held<KeyspaceObject>::of(keyspace);
    return held ? held->payload_bytes : 0;
  });
}
