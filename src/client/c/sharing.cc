// The C interface: what clients do with one another. Who computes what, and contexts that are handed over.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include <rhizome/rhizome.h>

#include "client/c/call.h"
#include "client/c/objects.h"
#include "client/client.h"
#include "machine/clock.h"

namespace rhizome {
namespace {

constexpr uint64_t kWaitMaxNs = uint64_t{365} * 86400 * 1'000'000'000;
constexpr size_t kPublishOptionsBytesMin = 24;
constexpr size_t kAdoptedBytesMin = 40;
static_assert(sizeof(rhizome_publish_options) >= kPublishOptionsBytesMin);
static_assert(sizeof(rhizome_adopted) >= kAdoptedBytesMin);
static_assert(RHIZOME_CONTEXT_MOVE == static_cast<int>(ContextUse::kMove));

// A keyspace and tokens, as most of these calls name them.
struct NamedPrompt {
  Held<KeyspaceObject> keyspace;
  std::span<const Token> tokens;
};

Result<NamedPrompt> prompt_of(const rhizome_keyspace* handle, const uint32_t* tokens, size_t tokens_count) {
  Result<Held<KeyspaceObject>> keyspace = held_by<KeyspaceObject>(handle, "this is no open keyspace");
  if (!keyspace) return fail(keyspace.error());
  const Result<std::span<const Token>> prompt = read_tokens(tokens, tokens_count);
  if (!prompt) return fail(prompt.error());
  return NamedPrompt{std::move(*keyspace), *prompt};
}

Result<Held<ClientObject>> client_of(const rhizome_client* handle) {
  return held_by<ClientObject>(handle, "this is no open client");
}

template <class Value, class Get>
Value of_announcement(const rhizome_announcement* handle, Get get) noexcept {
  return value_or(Value{}, [&]() -> Value {
    const auto held = Held<AnnouncementObject>::of(handle);
    return held ? get(held->announcement) : Value{};
  });
}

Status publish(const NamedPrompt& prompt, const rhizome_publish_options* given, rhizome_context_handle* handle) {
  if (handle == nullptr) return fail(Code::kInvalidArgument, "there is no room for the handle");
  *handle = {};
  rhizome_publish_options options = RHIZOME_PUBLISH_OPTIONS_INIT;
  const Status read = read_options(options, given, kPublishOptionsBytesMin);
  if (!read) return read;
  if (options.use > RHIZOME_CONTEXT_MOVE || options.outlives_publisher > 1) {
    return fail(Code::kInvalidArgument, "a use or a yes that there is not");
  }
  ContextTerms terms;
  terms.use = static_cast<ContextUse>(options.use);
  if (options.lifetime_ns != 0) terms.lifetime_ns = options.lifetime_ns;
  terms.outlives_publisher = options.outlives_publisher == 1;
  const KeyspaceObject& keyspace = *prompt.keyspace;
  const Result<ContextHandle> published = keyspace.client().publish(keyspace.id, prompt.tokens, terms);
  if (!published) return fail(published.error());
  *handle = {published->high, published->low};
  return {};
}

// The handles that it makes are the caller's only when both are there.
Status give_adopted(const Held<ClientObject>& client, Context context, rhizome_adopted& out) {
  auto hit = std::make_unique<HitObject>(client.again());
  {
    const MutexLock lock(hit->mutex);
    const size_t found = context.hit.blocks_count() * client->client->block_tokens();
    hit->tokens.assign(context.tokens.begin(), context.tokens.begin() + static_cast<std::ptrdiff_t>(found));
    hit->hit = std::move(context.hit);
  }
  hit->context = std::move(context.tokens);
  out.tokens = hit->context.data();
  out.tokens_count = hit->context.size();
  const Status has_keyspace =
      give(&out.keyspace, std::make_unique<KeyspaceObject>(client.again(), context.keyspace, context.payload_bytes));
  if (!has_keyspace) return has_keyspace;
  const Status has_hit = give(&out.hit, std::move(hit));
  if (!has_hit) close_handle<KeyspaceObject>(out.keyspace);
  return has_hit;
}

Status adopt(const rhizome_client* handle, const rhizome_context_handle* context_handle, rhizome_adopted* given) {
  if (given == nullptr) return fail(Code::kInvalidArgument, "there is no room for what is adopted");
  const size_t bytes = given->struct_size;
  if (bytes < kAdoptedBytesMin) {
    return fail(Code::kInvalidArgument, "the struct_size of rhizome_adopted is wrong: begin with its _INIT");
  }
  rhizome_adopted adopted = RHIZOME_ADOPTED_INIT;
  // Fields that this version does not know stay as the caller has set them.
  const auto write = [&] {
    adopted.struct_size = bytes;
    std::memcpy(given, &adopted, std::min(bytes, sizeof adopted));
  };
  write();
  const Result<Held<ClientObject>> client = client_of(handle);
  if (!client) return fail(client.error());
  if (context_handle == nullptr) return fail(Code::kInvalidArgument, "the handle is NULL");
  Result<Context> context = (*client)->client->adopt({context_handle->high, context_handle->low});
  if (!context) return fail(context.error());
  const Status has_all = give_adopted(*client, std::move(*context), adopted);
  if (has_all) write();
  return has_all;
}

}  // namespace
}  // namespace rhizome

using namespace rhizome;

// --- who computes what

rhizome_code rhizome_announce(rhizome_keyspace* keyspace, const uint32_t* tokens, size_t tokens_count, size_t first,
                              size_t end, uint64_t patience_ns, rhizome_announcement** announcement,
                              rhizome_error* error) {
  return answer(error, [&]() -> Status {
    if (announcement == nullptr) return fail(Code::kInvalidArgument, "there is no room for the announcement");
    *announcement = nullptr;
    const Result<NamedPrompt> prompt = prompt_of(keyspace, tokens, tokens_count);
    if (!prompt) return fail(prompt.error());
    const KeyspaceObject& of = *prompt->keyspace;
    Announcement made = of.client().announce(of.id, prompt->tokens, first, end, std::min(patience_ns, kWaitMaxNs));
    return give(announcement, std::make_unique<AnnouncementObject>(of.owner.again(), std::move(made)));
  });
}

int32_t rhizome_announcement_is_ours(const rhizome_announcement* announcement) {
  return of_announcement<int32_t>(announcement, [](const Announcement& made) { return made.is_ours() ? 1 : 0; });
}

int32_t rhizome_announcement_is_others(const rhizome_announcement* announcement) {
  return of_announcement<int32_t>(announcement, [](const Announcement& made) { return made.is_others() ? 1 : 0; });
}

size_t rhizome_announcement_end_block(const rhizome_announcement* announcement) {
  return of_announcement<size_t>(announcement, [](const Announcement& made) { return made.end_block(); });
}

rhizome_code rhizome_announcement_withdraw(rhizome_announcement* announcement) {
  return close_handle<AnnouncementObject>(announcement);
}

rhizome_code rhizome_wait(rhizome_keyspace* keyspace, const uint32_t* tokens, size_t tokens_count, size_t more_than,
                          uint64_t wait_ns, size_t* blocks_count, int32_t* is_computed, rhizome_error* error) {
  return answer(error, [&]() -> Status {
    if (blocks_count == nullptr) return fail(Code::kInvalidArgument, "there is no room for the count");
    *blocks_count = 0;
    if (is_computed != nullptr) *is_computed = 0;
    const Result<NamedPrompt> prompt = prompt_of(keyspace, tokens, tokens_count);
    if (!prompt) return fail(prompt.error());
    const KeyspaceObject& of = *prompt->keyspace;
    const uint64_t deadline_ns = monotonic_now_ns() + std::min(wait_ns, kWaitMaxNs);
    const Arrival arrival =
        of.client().wait(of.id, prompt->tokens, std::min<size_t>(more_than, UINT32_MAX), deadline_ns);
    *blocks_count = arrival.blocks;
    if (is_computed != nullptr) *is_computed = arrival.is_computed ? 1 : 0;
    return {};
  });
}

// --- contexts

rhizome_code rhizome_publish(rhizome_keyspace* keyspace, const uint32_t* tokens, size_t tokens_count,
                             const rhizome_publish_options* options, rhizome_context_handle* handle,
                             rhizome_error* error) {
  return answer(error, [&]() -> Status {
    const Result<NamedPrompt> prompt = prompt_of(keyspace, tokens, tokens_count);
    if (!prompt) return fail(prompt.error());
    return publish(*prompt, options, handle);
  });
}

rhizome_code rhizome_adopt(rhizome_client* client, const rhizome_context_handle* handle, rhizome_adopted* adopted,
                           rhizome_error* error) {
  return answer(error, [&] { return adopt(client, handle, adopted); });
}

rhizome_code rhizome_unpublish(rhizome_client* client, const rhizome_context_handle* handle, rhizome_error* error) {
  return answer(error, [&]() -> Status {
    const Result<Held<ClientObject>> held = client_of(client);
    if (!held) return fail(held.error());
    if (handle == nullptr) return fail(Code::kInvalidArgument, "the handle is NULL");
    return (*held)->client->unpublish({handle->high, handle->low});
  });
}
