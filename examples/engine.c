/* An engine in miniature, to show where the cache is asked: before a prompt is computed, and behind it.
 *
 *   engine                       a cache of its own, gone with the process
 *   engine --disk DIRECTORY      the same, and a second run finds what the first has computed
 *   engine --attach SOCKET       the cache of a node, shared with other processes
 *
 * Its "KV" is a hash over all tokens so far, as real KV depends on all of them. docs/c.md explains the calls. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rhizome/rhizome.h>

enum { LAYERS = 2, HEADS = 2, WIDTH = 16, BLOCK_TOKENS = 16, PROMPT_TOKENS = 330, CONTINUED_TOKENS = 420 };

/* The payload of one block, as RHIZOME_LAYOUT_LAYER_HALF_TOKEN says: [layer][K, V][token][head][width]. */
typedef uint16_t block_kv[LAYERS][2][BLOCK_TOKENS][HEADS][WIDTH];

static void check(rhizome_code code, const char* what, const rhizome_error* error) {
  if (code == RHIZOME_OK) return;
  fprintf(stderr, "engine: %s: %s (%s)\n", what, error->message, rhizome_code_name(code));
  exit(1);
}

/* What the model does: KV of the tokens [first, first + BLOCK_TOKENS) behind all that are before them. */
static void compute(const uint32_t* tokens, size_t first, block_kv kv) {
  uint64_t state = 1469598103934665603u;
  for (size_t i = 0; i < first + BLOCK_TOKENS; i++) {
    state = (state ^ tokens[i]) * 1099511628211u;
    if (i < first) continue;
    for (int layer = 0; layer < LAYERS; layer++)
      for (int half = 0; half < 2; half++)
        for (int head = 0; head < HEADS; head++)
          for (int x = 0; x < WIDTH; x++)
            kv[layer][half][i - first][head][x] =
                (uint16_t)(state >> 20 ^ (uint64_t)(layer * 8191 + half * 4099 + head * 521 + x * 31));
  }
}

/* Blocks that the cache had, each compared with what computing gives; a real engine copies them into its own KV. */
static size_t restore(rhizome_hit* hit, const uint32_t* tokens, rhizome_error* error) {
  size_t end = 0;
  block_kv expected;
  check(rhizome_hit_promote(hit, 0, rhizome_hit_blocks_count(hit), &end, error), "promote", error);
  for (size_t block = 0; block < end; block++) {
    const void* payload = NULL;
    size_t bytes = 0;
    /* A block that did not verify or came too late is computed like any other. */
    if (rhizome_hit_read(hit, block, &payload, &bytes, error) != RHIZOME_OK) return block;
    compute(tokens, block * BLOCK_TOKENS, expected);
    if (bytes != sizeof expected || memcmp(payload, expected, bytes) != 0) {
      fprintf(stderr, "engine: block %lu is wrong\n", (unsigned long)block);
      exit(1);
    }
  }
  return end;
}

/* Computes the whole blocks behind the first `restored` ones, and stores them. */
static void store(rhizome_keyspace* keyspace, const uint32_t* tokens, size_t blocks, size_t restored) {
  rhizome_error error = RHIZOME_ERROR_INIT;
  rhizome_draft* draft = NULL;
  const rhizome_code code =
      rhizome_reserve(keyspace, tokens, blocks * BLOCK_TOKENS, (uint32_t)restored, &draft, &error);
  if (code != RHIZOME_OK) { /* No room, or no node any more: the engine goes on, the next one computes again. */
    fprintf(stderr, "engine: nothing is stored: %s\n", error.message);
    return;
  }
  for (size_t i = 0; i < rhizome_draft_blocks_count(draft); i++) {
    void* payload = NULL;
    size_t bytes = 0;
    block_kv kv;
    check(rhizome_draft_payload(draft, i, &payload, &bytes, &error), "payload", &error);
    compute(tokens, (rhizome_draft_first_block(draft) + i) * BLOCK_TOKENS, kv);
    memcpy(payload, kv, sizeof kv);
  }
  check(rhizome_draft_commit(draft, NULL, &error), "commit", &error);
}

static void answer(rhizome_keyspace* keyspace, const uint32_t* tokens, size_t count) {
  rhizome_error error = RHIZOME_ERROR_INIT;
  rhizome_hit* hit = NULL;
  check(rhizome_lookup(keyspace, tokens, count, &hit, &error), "look-up", &error);
  const char* reason = rhizome_reason_name(rhizome_hit_reason(hit));
  const size_t restored = restore(hit, tokens, &error);
  store(keyspace, tokens, count / BLOCK_TOKENS, restored);
  rhizome_hit_release(hit);
  printf("prompt of %lu tokens: %lu restored, %lu computed (%s)\n", (unsigned long)count,
         (unsigned long)(restored * BLOCK_TOKENS), (unsigned long)(count - restored * BLOCK_TOKENS), reason);
}

static rhizome_client* open_client(int argc, char** argv) {
  rhizome_error error = RHIZOME_ERROR_INIT;
  rhizome_client* client = NULL;
  if (argc == 3 && strcmp(argv[1], "--attach") == 0) {
    rhizome_attached_options options = RHIZOME_ATTACHED_OPTIONS_INIT;
    options.socket_path = argv[2];
    check(rhizome_client_attach(&options, &client, &error), "attach", &error);
  } else if (argc == 1 || (argc == 3 && strcmp(argv[1], "--disk") == 0)) {
    rhizome_embedded_options options = RHIZOME_EMBEDDED_OPTIONS_INIT;
    options.memory_bytes = 64u << 20;
    options.block_tokens = BLOCK_TOKENS;
    options.disk_directory = argc == 3 ? argv[2] : NULL;
    options.disk_bytes = argc == 3 ? 256u << 20 : 0;
    check(rhizome_client_open_embedded(&options, &client, &error), "open", &error);
  } else {
    fprintf(stderr, "usage: engine [--disk DIRECTORY | --attach SOCKET]\n");
    exit(2);
  }
  return client;
}

int main(int argc, char** argv) {
  /* Everything that the KV depends on; whoever differs in one byte shares nothing with us. */
  static const rhizome_keyspace_field fields[] = {
      RHIZOME_TEXT_FIELD(RHIZOME_FIELD_ENGINE, "example/1"),
      RHIZOME_TEXT_FIELD(RHIZOME_FIELD_WEIGHTS, "a digest of the weights stands here"),
      RHIZOME_TEXT_FIELD(RHIZOME_FIELD_MEMORY_CLASS, "dense"),
      RHIZOME_TEXT_FIELD(RHIZOME_FIELD_ROPE, "none"),
      RHIZOME_TEXT_FIELD(RHIZOME_FIELD_ATTENTION, "causal"),
  };
  rhizome_error error = RHIZOME_ERROR_INIT;
  rhizome_client* client = open_client(argc, argv);
  rhizome_keyspace_options shape = RHIZOME_KEYSPACE_OPTIONS_INIT;
  shape.fields = fields;
  shape.fields_count = sizeof fields / sizeof fields[0];
  shape.element_type = RHIZOME_ELEMENT_F16;
  shape.layers_count = LAYERS;
  shape.kv_heads_count = HEADS;
  shape.key_width = shape.value_width = WIDTH;
  rhizome_keyspace* keyspace = NULL;
  check(rhizome_keyspace_open(client, &shape, &keyspace, &error), "keyspace", &error);

  uint32_t tokens[CONTINUED_TOKENS];
  for (uint32_t i = 0; i < CONTINUED_TOKENS; i++) tokens[i] = i * i % 1009;
  answer(keyspace, tokens, PROMPT_TOKENS);
  answer(keyspace, tokens, CONTINUED_TOKENS); /* the conversation goes on */

  check(rhizome_client_flush(client, 10000000000u, &error), "flush", &error);
  rhizome_keyspace_close(keyspace);
  rhizome_client_close(client);
  return 0;
}
