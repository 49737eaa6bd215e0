// The C interface: hits and drafts.
#include <bit>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include <rhizome/rhizome.h>

#include "block/reason.h"
#include "client/c/call.h"
#include "client/c/objects.h"
#include "client/client.h"

namespace rhizome {
namespace {

static_assert(RHIZOME_REASON_OFF == static_cast<int>(Reason::kOff));
static_assert(kReasonsCount == RHIZOME_REASON_OFF + 1);

Result<Held<KeyspaceObject>> keyspace_of(const rhizome_keyspace* handle) {
  return held_by<KeyspaceObject>(handle, "this is no open keyspace");
}

Result<Held<HitObject>> hit_of(const rhizome_hit* handle) {
  return held_by<HitObject>(handle, "this is no hit, or it has been released");
}

Result<Held<DraftObject>> draft_of(const rhizome_draft* handle) {
  return held_by<DraftObject>(handle, "this is no draft, or it has ended");
}

void look_up(const KeyspaceObject& keyspace, std::span<const Token> prompt, HitObject& object) {
  const MutexLock lock(object.mutex);
  keyspace.client().lookup(keyspace.id, prompt, object.hit);
  const size_t found = object.hit.blocks_count() * keyspace.client().block_tokens();
  object.tokens.assign(prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(found));
}

Status look_up(const rhizome_keyspace* handle, const uint32_t* tokens, size_t tokens_count, rhizome_hit** out) {
  if (out == nullptr) return fail(Code::kInvalidArgument, "there is no room for the hit");
  const Result<Held<KeyspaceObject>> keyspace = keyspace_of(handle);
  if (!keyspace) return fail(keyspace.error());
  const Result<std::span<const Token>> prompt = read_tokens(tokens, tokens_count);
  if (!prompt) return fail(prompt.error());
  if (*out == nullptr) {
    auto made = std::make_unique<HitObject>((*keyspace)->owner.again());
    look_up(**keyspace, *prompt, *made);
    return give(out, std::move(made));
  }
  const Result<Held<HitObject>> again = hit_of(*out);
  if (!again) return fail(again.error());
  if (&*(*again)->owner != &*(*keyspace)->owner) return fail(Code::kInvalidArgument, "this is another client's hit");
  look_up(**keyspace, *prompt, **again);
  return {};
}

// A value that a hit has; `otherwise` for what is none.
template <class Value, class Get>
Value of_hit(const rhizome_hit* handle, Value otherwise, Get get) noexcept {
  return value_or(otherwise, [&]() -> Value {
    const auto held = Held<HitObject>::of(handle);
    if (!held) return otherwise;
    HitObject& object = *held;
    const MutexLock lock(object.mutex);
    return get(object.hit);
  });
}

Status read_block(const rhizome_hit* handle, size_t block, const void** payload, size_t* payload_bytes) {
  if (payload == nullptr || payload_bytes == nullptr) return fail(Code::kInvalidArgument, "no room for the payload");
  *payload = nullptr;
  *payload_bytes = 0;
  const Result<Held<HitObject>> held = hit_of(handle);
  if (!held) return fail(held.error());
  HitObject& object = **held;
  const MutexLock lock(object.mutex);
  const auto bytes = object.owner->client->read(object.hit, object.tokens, block);
  if (!bytes) return fail(bytes.error());
  *payload = bytes->data();
  *payload_bytes = bytes->size();
  return {};
}

template <class Value, class Get>
Value of_draft(const rhizome_draft* handle, Value otherwise, Get get) noexcept {
  return value_or(otherwise, [&]() -> Value {
    const auto held = Held<DraftObject>::of(handle);
    if (!held) return otherwise;
    DraftObject& object = *held;
    const MutexLock lock(object.mutex);
    return get(object.draft);
  });
}

Status reserve(const rhizome_keyspace* handle, const uint32_t* tokens, size_t tokens_count, uint32_t first_block,
               rhizome_draft** out) {
  if (out == nullptr) return fail(Code::kInvalidArgument, "there is no room for the draft");
  *out = nullptr;
  const Result<Held<KeyspaceObject>> keyspace = keyspace_of(handle);
  if (!keyspace) return fail(keyspace.error());
  const Result<std::span<const Token>> prompt = read_tokens(tokens, tokens_count);
  if (!prompt) return fail(prompt.error());
  Result<Draft> draft = (*keyspace)->client().reserve((*keyspace)->id, *prompt, first_block);
  if (!draft) return fail(draft.error());
  return give(out, std::make_unique<DraftObject>((*keyspace)->owner.again(), std::move(*draft)));
}

Status place_of(const rhizome_draft* handle, size_t i, void** payload, size_t* payload_bytes) {
  if (payload == nullptr || payload_bytes == nullptr) return fail(Code::kInvalidArgument, "no room for the payload");
  *payload = nullptr;
  *payload_bytes = 0;
  const Result<Held<DraftObject>> held = draft_of(handle);
  if (!held) return fail(held.error());
  DraftObject& object = **held;
  const MutexLock lock(object.mutex);
  if (i >= object.draft.blocks_count()) return fail(Code::kOutOfRange, "the draft has no such block");
  const std::span<std::byte> bytes = object.draft.payload(i);
  *payload = bytes.data();
  *payload_bytes = bytes.size();
  return {};
}

Status commit(const rhizome_draft* handle, size_t* visible_count) {
  if (visible_count != nullptr) *visible_count = 0;
  const Result<Held<DraftObject>> held = draft_of(handle);
  if (!held) return fail(held.error());
  DraftObject& object = **held;
  const MutexLock lock(object.mutex);
  // First of all: whatever happens it has ended, and of two threads that have come this far one ends it.
  if (!HandleTable::of_process().close(std::bit_cast<uint64_t>(handle), HandleKind::kDraft)) {
    return fail(Code::kInvalidArgument, "this is no draft, or it has ended");
  }
  const size_t visible = object.owner->client->commit(std::move(object.draft));
  if (visible_count != nullptr) *visible_count = visible;
  return {};
}

}  // namespace
}  // namespace rhizome

using namespace rhizome;

// --- look-ups and hits

rhizome_code rhizome_lookup(rhizome_keyspace* keyspace, const uint32_t* tokens, size_t tokens_count, rhizome_hit** hit,
                            rhizome_error* error) {
  return answer(error, [&] { return look_up(keyspace, tokens, tokens_count, hit); });
}

rhizome_code rhizome_peek(rhizome_keyspace* keyspace, const uint32_t* tokens, size_t tokens_count, size_t* found_tokens,
                          rhizome_error* error) {
  return answer(error, [&]() -> Status {
    if (found_tokens == nullptr) return fail(Code::kInvalidArgument, "there is no room for the count");
    *found_tokens = 0;
    const Result<Held<KeyspaceObject>> held = keyspace_of(keyspace);
    if (!held) return fail(held.error());
    const Result<std::span<const Token>> prompt = read_tokens(tokens, tokens_count);
    if (!prompt) return fail(prompt.error());
    *found_tokens = (*held)->client().peek((*held)->id, *prompt);
    return {};
  });
}

size_t rhizome_hit_blocks_count(const rhizome_hit* hit) {
  return of_hit(hit, size_t{0}, [](const Hit& found) { return found.blocks_count(); });
}

size_t rhizome_hit_loaded_count(const rhizome_hit* hit) {
  return of_hit(hit, size_t{0}, [](const Hit& found) { return found.loaded_count(); });
}

int32_t rhizome_hit_reason(const rhizome_hit* hit) {
  return of_hit(hit, int32_t{RHIZOME_REASON_NONE},
                [](const Hit& found) { return static_cast<int32_t>(found.reason()); });
}

const char* rhizome_reason_name(int32_t reason) {
  if (reason < RHIZOME_REASON_FULL || reason > RHIZOME_REASON_OFF) return "unknown";
  return reason_name(static_cast<Reason>(reason)).data();  // of a literal: it ends with a zero
}

rhizome_code rhizome_hit_promote(rhizome_hit* hit, size_t first, size_t end, size_t* part_end, rhizome_error* error) {
  return answer(error, [&]() -> Status {
    if (part_end == nullptr) return fail(Code::kInvalidArgument, "there is no room for the end");
    *part_end = 0;
    const Result<Held<HitObject>> held = hit_of(hit);
    if (!held) return fail(held.error());
    HitObject& object = **held;
    const MutexLock lock(object.mutex);
    *part_end = object.owner->client->promote(object.hit, object.tokens, first, end);
    return {};
  });
}

rhizome_code rhizome_hit_read(rhizome_hit* hit, size_t block, const void** payload, size_t* payload_bytes,
                              rhizome_error* error) {
  return answer(error, [&] { return read_block(hit, block, payload, payload_bytes); });
}

rhizome_code rhizome_hit_release(rhizome_hit* hit) {
  return close_handle<HitObject>(hit);
}

// --- drafts

rhizome_code rhizome_reserve(rhizome_keyspace* keyspace, const uint32_t* tokens, size_t tokens_count,
                             uint32_t first_block, rhizome_draft** draft, rhizome_error* error) {
  return answer(error, [&] { return reserve(keyspace, tokens, tokens_count, first_block, draft); });
}

uint32_t rhizome_draft_first_block(const rhizome_draft* draft) {
  return of_draft(draft, uint32_t{0}, [](const Draft& reserved) { return reserved.first_block(); });
}

size_t rhizome_draft_blocks_count(const rhizome_draft* draft) {
  return of_draft(draft, size_t{0}, [](const Draft& reserved) { return reserved.blocks_count(); });
}

rhizome_code rhizome_draft_payload(rhizome_draft* draft, size_t i, void** payload, size_t* payload_bytes,
                                   rhizome_error* error) {
  return answer(error, [&] { return place_of(draft, i, payload, payload_bytes); });
}

rhizome_code rhizome_draft_commit(rhizome_draft* draft, size_t* visible_count, rhizome_error* error) {
  return answer(error, [&] { return commit(draft, visible_count); });
}

rhizome_code rhizome_draft_abort(rhizome_draft* draft) {
  return close_handle<DraftObject>(draft);
}
