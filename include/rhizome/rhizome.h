/* Rhizome's C interface: a KV cache in this process, or the one of a node that the processes of a machine share.
 *
 *   client     a cache. Made by rhizome_client_open_embedded() or rhizome_client_attach().
 *   keyspace   everything but the tokens that KV depends on. Two keyspaces never share a block.
 *   hit        the stored blocks at the head of a prompt, pinned until it is released.
 *   draft      blocks that are being written, invisible until they are committed.
 *   context    a prompt that is handed over, from one client of a node to another one.
 *
 * Handles. What a function makes is closed once by the function that its comment names. A handle keeps what it was made
 * from: a client that is closed ends with its last keyspace, hit and draft. Handles are numbers in the shape of
 * pointers: a closed one, one of another kind or a made-up one is refused with RHIZOME_INVALID_ARGUMENT. They mean
 * nothing in a forked child.
 *
 * Errors. Functions that can fail return a rhizome_code and take a rhizome_error last, which may be NULL. It belongs to
 * the caller and says after each call what came of that one. A miss is no error. No exception leaves the library, and
 * no argument ends the process, but pointers that are not NULL are believed.
 *
 * Threads. Every function may be called from any thread. Calls on one hit or one draft wait for one another, all others
 * run side by side. A rhizome_error belongs to one thread at a time.
 *
 * Versions. A struct begins with its size, which its ..._INIT macro sets. A program that was compiled with an older
 * header goes on working; one compiled with a newer header gets RHIZOME_UNIMPLEMENTED if it sets what is not known
 * here. Sizes are in bytes and times in nanoseconds unless they say otherwise.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define RHIZOME_API __attribute__((visibility("default")))
#else
#define RHIZOME_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Grows when a function or a field is added; the number in the library's name only when one is taken away. */
#define RHIZOME_ABI_VERSION 2

/* ---- errors */

/* The canonical codes of gRPC (google.rpc.Code). */
typedef enum rhizome_code {
  RHIZOME_OK = 0,
  RHIZOME_CANCELLED = 1,
  RHIZOME_UNKNOWN = 2, /* an exception that was none of the errors below */
  RHIZOME_INVALID_ARGUMENT = 3,
  RHIZOME_DEADLINE_EXCEEDED = 4,
  RHIZOME_NOT_FOUND = 5,
  RHIZOME_ALREADY_EXISTS = 6,
  RHIZOME_PERMISSION_DENIED = 7,
  RHIZOME_RESOURCE_EXHAUSTED = 8, /* also: out of memory */
  RHIZOME_FAILED_PRECONDITION = 9,
  RHIZOME_ABORTED = 10,
  RHIZOME_OUT_OF_RANGE = 11,
  RHIZOME_UNIMPLEMENTED = 12,
  RHIZOME_INTERNAL = 13,
  RHIZOME_UNAVAILABLE = 14,
  RHIZOME_DATA_LOSS = 15,
  RHIZOME_UNAUTHENTICATED = 16
} rhizome_code;

typedef struct rhizome_error {
  size_t struct_size; /* sizeof(rhizome_error), set by the caller; less than 16: nothing is written */
  int32_t code;       /* a rhizome_code */
  char message[252];  /* for a person; ends with a zero, empty after RHIZOME_OK */
} rhizome_error;

#define RHIZOME_ERROR_INIT {sizeof(rhizome_error), RHIZOME_OK, ""}

/* "INVALID_ARGUMENT" and so on; "UNKNOWN" for any other number. Never NULL, never to be freed. */
RHIZOME_API const char* rhizome_code_name(int32_t code);

/* ---- the library */

/* "0.1.0" */
RHIZOME_API const char* rhizome_version(void);
/* RHIZOME_ABI_VERSION of the library that is running, which may be newer than the header. */
RHIZOME_API uint32_t rhizome_abi_version(void);

typedef enum rhizome_log_level {
  RHIZOME_LOG_DEBUG = 0,
  RHIZOME_LOG_INFO = 1, /* at first */
  RHIZOME_LOG_WARNING = 2,
  RHIZOME_LOG_ERROR = 3,
  RHIZOME_LOG_SILENT = 4
} rhizome_log_level;

/* Which lines the library writes to standard error, for the whole process. */
RHIZOME_API rhizome_code rhizome_set_log_level(int32_t level);

/* ---- client: any number of threads */

typedef struct rhizome_client rhizome_client;

/* When the checksum of a block in memory is compared with its bytes before they are handed out. Whatever is chosen, its
 * identity is compared at each read, and its checksum when it comes up from a disk. */
typedef enum rhizome_verify {
  RHIZOME_VERIFY_TIER = 0,   /* only then: bits that change in memory itself are not found */
  RHIZOME_VERIFY_SAMPLE = 1, /* in one look-up of 64 */
  RHIZOME_VERIFY_ALWAYS = 2  /* at each read */
} rhizome_verify;

typedef struct rhizome_embedded_options {
  size_t struct_size;
  uint64_t memory_bytes;        /* all that the cache may take; at most 16 TiB */
  uint32_t block_tokens;        /* 16, 32, 64, 128 or 256; 0: 16 */
  uint32_t verify;              /* a rhizome_verify */
  const char* disk_directory;   /* NULL: no disk. One process at a time uses it. */
  uint64_t disk_bytes;          /* with disk_directory: how much of it; else 0 */
  uint64_t disk_bytes_each_day; /* written at most; 0: no limit */
} rhizome_embedded_options;

#define RHIZOME_EMBEDDED_OPTIONS_INIT {sizeof(rhizome_embedded_options), 0, 0, 0, NULL, 0, 0}

typedef struct rhizome_attached_options {
  size_t struct_size;
  const char* socket_path;
  const char* tenant;     /* NULL: "" */
  uint64_t staging_bytes; /* for drafts that are not committed; at most 64 GiB; 0: 64 MiB */
  uint64_t reply_wait_ns; /* for an answer of the node, and then the session has ended; 0: 5 s */
  uint32_t verify;        /* a rhizome_verify */
  uint32_t reserved;      /* 0 */
} rhizome_attached_options;

#define RHIZOME_ATTACHED_OPTIONS_INIT {sizeof(rhizome_attached_options), NULL, NULL, 0, 0, 0, 0}

/* A cache inside this process. A disk that cannot be used is said in the log, and the cache goes on without.
 * INVALID_ARGUMENT: a block size that is not offered, or too little memory. Close with rhizome_client_close(). */
RHIZOME_API rhizome_code rhizome_client_open_embedded(const rhizome_embedded_options* options, rhizome_client** client,
                                                      rhizome_error* error);
/* The cache of a node. Hits are read in place. When the node is gone they stay readable, nothing can be stored, and
 * calls that need the node look for a new one once a second at most. NOT_FOUND, UNAVAILABLE: there is no node.
 * PERMISSION_DENIED, FAILED_PRECONDITION: it is another user's or tenant's, or of another version. Close with
 * rhizome_client_close(). */
RHIZOME_API rhizome_code rhizome_client_attach(const rhizome_attached_options* options, rhizome_client** client,
                                               rhizome_error* error);
/* What was made with it lives on; the cache ends with the last of that. NULL does nothing. */
RHIZOME_API rhizome_code rhizome_client_close(rhizome_client* client);

/* Tokens in a block; 0 for what is no client. */
RHIZOME_API uint32_t rhizome_client_block_tokens(const rhizome_client* client);

/* The engine has computed `tokens` tokens behind `before` others in so many seconds: what loads are weighed against. */
RHIZOME_API rhizome_code rhizome_client_observe_compute(rhizome_client* client, uint64_t tokens, uint64_t before,
                                                        double seconds, rhizome_error* error);
/* Writes to the disk what is worth it, and waits for that at most `wait_ns`: before the process ends. */
RHIZOME_API rhizome_code rhizome_client_flush(rhizome_client* client, uint64_t wait_ns, rhizome_error* error);

/* This client's counters as lines of `name{label="value"} number`, zero-terminated. `needed` (may be NULL) gets the
 * bytes that the text takes with its zero. OUT_OF_RANGE: more than `capacity`; then the buffer has the text's
 * beginning. `buffer` may be NULL when `capacity` is 0. */
RHIZOME_API rhizome_code rhizome_client_stats(rhizome_client* client, char* buffer, size_t capacity, size_t* needed,
                                              rhizome_error* error);

/* ---- keyspace: any number of threads */

typedef struct rhizome_keyspace rhizome_keyspace;

/* What a field of a keyspace says. Its bytes are the engine's own choice: any that differ make another keyspace. */
typedef enum rhizome_field_tag {
  RHIZOME_FIELD_ENGINE = 1,  /* required: engine family and KV format revision, "myengine/kv-3" */
  RHIZOME_FIELD_WEIGHTS = 2, /* required: a digest over the contents of all weight files */
  RHIZOME_FIELD_OVERRIDES = 3,
  RHIZOME_FIELD_LAYOUT = 4,       /* required for RHIZOME_LAYOUT_OPAQUE: what the bytes of a block are */
  RHIZOME_FIELD_MEMORY_CLASS = 5, /* required: "dense", or a sliding window with its width */
  RHIZOME_FIELD_ROPE = 6,         /* required: type, base, scale of the position encoding */
  RHIZOME_FIELD_ROTATION = 7,
  RHIZOME_FIELD_ATTENTION = 8, /* required: "causal", attention type */
  RHIZOME_FIELD_ADAPTERS = 9,
  RHIZOME_FIELD_CONTROL_VECTOR = 10,
  RHIZOME_FIELD_TENANT = 11,
  RHIZOME_FIELD_SALT = 12,
  RHIZOME_FIELD_EPOCH = 13,
  RHIZOME_FIELD_MEDIA = 14,
  RHIZOME_FIELD_NUMERICS = 15
} rhizome_field_tag;

/* Never grows: fields come in arrays. */
typedef struct rhizome_keyspace_field {
  uint32_t tag;      /* a rhizome_field_tag, each at most once */
  uint32_t reserved; /* 0 */
  const void* bytes;
  uint64_t bytes_count; /* at most 1 MiB */
} rhizome_keyspace_field;

/* A field whose bytes are a string literal. */
#define RHIZOME_TEXT_FIELD(tag, text) {(tag), 0, (text), sizeof(text) - 1}

typedef enum rhizome_element_type {
  RHIZOME_ELEMENT_BF16 = 0,
  RHIZOME_ELEMENT_F16 = 1,
  RHIZOME_ELEMENT_F32 = 2,
  RHIZOME_ELEMENT_F8_E4M3 = 3,
  RHIZOME_ELEMENT_F8_E5M2 = 4,
  RHIZOME_ELEMENT_I8 = 5
} rhizome_element_type;

/* In which order a block's payload has its elements, the slowest first. */
typedef enum rhizome_layout {
  RHIZOME_LAYOUT_LAYER_HALF_TOKEN = 0, /* [layer][K, V][token][head][width] */
  RHIZOME_LAYOUT_LAYER_TOKEN_HALF = 1, /* [layer][token][K, V][head][width] */
  RHIZOME_LAYOUT_HALF_LAYER_TOKEN = 2, /* [K, V][layer][token][head][width] */
  RHIZOME_LAYOUT_LATENT = 3,           /* [layer][token][rope, latent]; one head, key_width the rope part's width */
  RHIZOME_LAYOUT_OPAQUE = 255          /* bytes that only their engine understands: opaque_bytes, and no dimensions */
} rhizome_layout;

typedef struct rhizome_keyspace_options {
  size_t struct_size;
  const rhizome_keyspace_field* fields;
  size_t fields_count;
  uint32_t layout;         /* a rhizome_layout */
  uint32_t element_type;   /* a rhizome_element_type; 0 with RHIZOME_LAYOUT_OPAQUE */
  uint32_t layers_count;   /* 1 to 1,024 */
  uint32_t kv_heads_count; /* 1 to 256 */
  uint32_t key_width;      /* elements of a head, 1 to 65,535 */
  uint32_t value_width;
  uint32_t keys_before_rope; /* 1: K was taken before the position encoding */
  uint32_t opaque_bytes;     /* RHIZOME_LAYOUT_OPAQUE: payload of one block */
} rhizome_keyspace_options;

#define RHIZOME_KEYSPACE_OPTIONS_INIT {sizeof(rhizome_keyspace_options), NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0}

/* The layout is part of the keyspace, with what RHIZOME_FIELD_LAYOUT adds. FAILED_PRECONDITION: a required field is
 * missing. INVALID_ARGUMENT: a shape that makes no sense, a field twice or of no known tag. RESOURCE_EXHAUSTED: one
 * block does not fit the memory, or too many keyspaces. Close with rhizome_keyspace_close(); its blocks stay. */
RHIZOME_API rhizome_code rhizome_keyspace_open(rhizome_client* client, const rhizome_keyspace_options* options,
                                               rhizome_keyspace** keyspace, rhizome_error* error);
RHIZOME_API rhizome_code rhizome_keyspace_close(rhizome_keyspace* keyspace);

/* Bytes of one block's payload; 0 for what is no keyspace. */
RHIZOME_API uint64_t rhizome_keyspace_payload_bytes(const rhizome_keyspace* keyspace);

/* ---- hit: calls on one hit wait for one another */

typedef struct rhizome_hit rhizome_hit;

typedef enum rhizome_reason {
  RHIZOME_REASON_NONE = -1, /* of what is no hit */
  RHIZOME_REASON_FULL = 0,  /* nothing is missing */
  RHIZOME_REASON_LAST_TOKEN = 1,
  RHIZOME_REASON_PARTIAL_BLOCK = 2, /* what is left is shorter than a block */
  RHIZOME_REASON_NEVER_STORED = 3,
  RHIZOME_REASON_DIVERGED = 4, /* another continuation is stored */
  RHIZOME_REASON_EVICTED = 5,
  RHIZOME_REASON_IN_FLIGHT = 6,
  RHIZOME_REASON_LOAD_FAILED = 7,
  RHIZOME_REASON_CORRUPT = 8, /* did not verify; quarantined */
  RHIZOME_REASON_KEYSPACE = 9,
  RHIZOME_REASON_STALE_EPOCH = 10,
  RHIZOME_REASON_NO_SNAPSHOT = 11,
  RHIZOME_REASON_NOT_CACHEABLE = 12,
  RHIZOME_REASON_QUOTA = 13, /* attached: more than 64 hits at a time */
  RHIZOME_REASON_BYPASS = 14,
  RHIZOME_REASON_OFF = 15
} rhizome_reason;

/* The longest stored prefix of the prompt, in whole blocks; a miss has none of them. `*hit` is NULL, and then a hit is
 * made, or a hit of the same client, which is released and used again: that costs less. Does not wait. Release with
 * rhizome_hit_release(). At most 2^30 tokens. */
RHIZOME_API rhizome_code rhizome_lookup(rhizome_keyspace* keyspace, const uint32_t* tokens, size_t tokens_count,
                                        rhizome_hit** hit, rhizome_error* error);
/* How many tokens rhizome_lookup() would find; pins nothing and counts as no use. */
RHIZOME_API rhizome_code rhizome_peek(rhizome_keyspace* keyspace, const uint32_t* tokens, size_t tokens_count,
                                      size_t* found_tokens, rhizome_error* error);

/* 0 for what is no hit. */
RHIZOME_API size_t rhizome_hit_blocks_count(const rhizome_hit* hit);
/* Of those that were promoted or read, how many had to come from a tier below memory. */
RHIZOME_API size_t rhizome_hit_loaded_count(const rhizome_hit* hit);
/* A rhizome_reason: why the look-up stopped where it did. */
RHIZOME_API int32_t rhizome_hit_reason(const rhizome_hit* hit);
/* "full", "never_stored" and so on; "unknown" for any other number. */
RHIZOME_API const char* rhizome_reason_name(int32_t reason);

/* Brings blocks [first, end) into memory; what is on a disk begins to be loaded. `part_end` gets where the part ends
 * that it pays to read: before `end` when computing the rest is faster, or memory is short. */
RHIZOME_API rhizome_code rhizome_hit_promote(rhizome_hit* hit, size_t first, size_t end, size_t* part_end,
                                             rhizome_error* error);
/* The payload of a block, verified as the client's options say. Readable until the hit is released or used again. Waits
 * for a block that is being loaded, no longer than its deadline. Cheapest in ascending order. OUT_OF_RANGE: no such
 * block. DATA_LOSS: it did not verify, and is gone from the cache. UNAVAILABLE: its load failed or was late, or the
 * node has ended the session. After these two the hit ends before the block, which is computed like any other. A node
 * that has ended a session, as no node does to a client that behaves but at its own end, may use the memory for other
 * blocks: who attaches reads the last block once more when all are copied, and believes them if that succeeds. */
RHIZOME_API rhizome_code rhizome_hit_read(rhizome_hit* hit, size_t block, const void** payload, size_t* payload_bytes,
                                          rhizome_error* error);
/* Its pointers are no longer good. NULL does nothing. */
RHIZOME_API rhizome_code rhizome_hit_release(rhizome_hit* hit);

/* ---- draft: calls on one draft wait for one another */

typedef struct rhizome_draft rhizome_draft;

/* Reserves the blocks of `tokens` (a whole number of blocks, from position 0) from `first_block` on, less those stored
 * already; fewer when memory is short. FAILED_PRECONDITION: a block before `first_block` is not stored.
 * RESOURCE_EXHAUSTED: no room, all is pinned. Ends with rhizome_draft_commit() or rhizome_draft_abort(). */
RHIZOME_API rhizome_code rhizome_reserve(rhizome_keyspace* keyspace, const uint32_t* tokens, size_t tokens_count,
                                         uint32_t first_block, rhizome_draft** draft, rhizome_error* error);

/* The blocks that have to be written are [first_block, first_block + blocks_count); 0 and 0 for what is no draft. */
RHIZOME_API uint32_t rhizome_draft_first_block(const rhizome_draft* draft);
RHIZOME_API size_t rhizome_draft_blocks_count(const rhizome_draft* draft);
/* Where the `i`-th of them is written, all of its bytes; until the draft is committed or aborted. */
RHIZOME_API rhizome_code rhizome_draft_payload(rhizome_draft* draft, size_t i, void** payload, size_t* payload_bytes,
                                               rhizome_error* error);
/* Makes the blocks visible and immutable. `visible_count` (may be NULL) gets how many became so: those that somebody
 * else has committed in the meantime do not. Ends the draft, whatever it returns. */
RHIZOME_API rhizome_code rhizome_draft_commit(rhizome_draft* draft, size_t* visible_count, rhizome_error* error);
/* Gives the room back. NULL does nothing. */
RHIZOME_API rhizome_code rhizome_draft_abort(rhizome_draft* draft);

/* ---- single flight: what several want is computed by one (docs/host.md) */

typedef struct rhizome_announcement rhizome_announcement;

/* The caller is about to compute blocks [first, end) of the prompt and to store them, as they come. Nothing heard of it
 * for `patience_ns`: it is as if it had never been said; likewise when the process ends. Waits for nobody's computing.
 * When all is stored, there can be no more claims or there is no node, it is neither ours nor another one's: go on.
 * End with rhizome_announcement_withdraw(). */
RHIZOME_API rhizome_code rhizome_announce(rhizome_keyspace* keyspace, const uint32_t* tokens, size_t tokens_count,
                                          size_t first, size_t end, uint64_t patience_ns,
                                          rhizome_announcement** announcement, rhizome_error* error);
/* 1: the caller computes, up to end_block, and the others wait. 0 also for what is no announcement. */
RHIZOME_API int32_t rhizome_announcement_is_ours(const rhizome_announcement* announcement);
/* 1: somebody else computes, up to end_block. */
RHIZOME_API int32_t rhizome_announcement_is_others(const rhizome_announcement* announcement);
RHIZOME_API size_t rhizome_announcement_end_block(const rhizome_announcement* announcement);
/* NULL does nothing. */
RHIZOME_API rhizome_code rhizome_announcement_withdraw(rhizome_announcement* announcement);

/* Sleeps until more than `more_than` blocks of the prompt are stored, nobody computes the next one (any more), or
 * `wait_ns` are over. `blocks_count` gets how many are stored now, `is_computed` (may be NULL) 1 when somebody computes
 * the next one. Who has announced something withdraws it first: two that wait for one another wait in vain. */
RHIZOME_API rhizome_code rhizome_wait(rhizome_keyspace* keyspace, const uint32_t* tokens, size_t tokens_count,
                                      size_t more_than, uint64_t wait_ns, size_t* blocks_count, int32_t* is_computed,
                                      rhizome_error* error);

/* ---- contexts: a prompt is handed over */

/* 128 random bits, to be told to who shall have the context, and to nobody else. All zero: none. Never grows. */
typedef struct rhizome_context_handle {
  uint64_t high;
  uint64_t low;
} rhizome_context_handle;

typedef enum rhizome_context_use {
  RHIZOME_CONTEXT_FORK = 0, /* any number may adopt it */
  RHIZOME_CONTEXT_MOVE = 1  /* one may, and the handle is gone */
} rhizome_context_use;

typedef struct rhizome_publish_options {
  size_t struct_size;
  uint64_t lifetime_ns;        /* of the handle; at most ten minutes; 0: one minute */
  uint32_t use;                /* a rhizome_context_use */
  uint32_t outlives_publisher; /* 0: the handle ends with this client, too */
} rhizome_publish_options;

#define RHIZOME_PUBLISH_OPTIONS_INIT {sizeof(rhizome_publish_options), 0, 0, 0}

/* What rhizome_adopt() gives. */
typedef struct rhizome_adopted {
  size_t struct_size;         /* sizeof(rhizome_adopted), set by the caller */
  rhizome_keyspace* keyspace; /* close with rhizome_keyspace_close() */
  rhizome_hit* hit;           /* what is stored of it, pinned; release with rhizome_hit_release() */
  const uint32_t* tokens;     /* all of them; readable until the hit is released */
  size_t tokens_count;
} rhizome_adopted;

#define RHIZOME_ADOPTED_INIT {sizeof(rhizome_adopted), NULL, NULL, NULL, 0}

/* Hands a prompt over, and what is stored of it now, which is kept until the handle ends. Attached, any client of the
 * same node and tenant may adopt it; with the node's end it is gone. FAILED_PRECONDITION: nothing of it is stored.
 * RESOURCE_EXHAUSTED: 256 contexts, a million tokens or the client's quota are used up. UNAVAILABLE: no node. */
RHIZOME_API rhizome_code rhizome_publish(rhizome_keyspace* keyspace, const uint32_t* tokens, size_t tokens_count,
                                         const rhizome_publish_options* options, rhizome_context_handle* handle,
                                         rhizome_error* error);
/* Goes on with it: its blocks are never without a pin in between, and none is copied. NOT_FOUND: there is no such
 * context (any more), or somebody is adopting it to keep it. RESOURCE_EXHAUSTED: too many hits, or no memory.
 * UNAVAILABLE: no node. After an error `adopted` has no handle. */
RHIZOME_API rhizome_code rhizome_adopt(rhizome_client* client, const rhizome_context_handle* handle,
                                       rhizome_adopted* adopted, rhizome_error* error);
/* Nobody adopts it any more; who has keeps it. NOT_FOUND: as rhizome_adopt(). */
RHIZOME_API rhizome_code rhizome_unpublish(rhizome_client* client, const rhizome_context_handle* handle,
                                           rhizome_error* error);

#ifdef __cplusplus
}
#endif
