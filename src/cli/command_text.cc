#include "cli/command_text.h"

#include <array>

namespace rhizome {
namespace {

constexpr CommandText kServe{
    "serve",
    "An OpenAI-compatible server: the bundled llama.cpp server with the cache attached",
    "serve -m MODEL.gguf [cache flags] [llama-server flags]",
    "Starts the bundled llama-server with the cache attached. Flags that are not in the list below go to llama-server "
    "unchanged and in order, and so does everything after --.\n\n"
    "The server's own caches are switched off so that memory is not spent twice (--cache-ram 0 --ctx-checkpoints 0, "
    "unless you give them), and its slots share one KV buffer (-kvu, unless you give -kvu or -no-kvu). With --exact "
    "every slot has a buffer of its own instead: -c is multiplied by the number of slots (-np, 4 if you do not give "
    "it), so that each conversation keeps the context you asked for. With --off the stock server runs, untouched.\n\n"
    "SIGINT and SIGTERM stop it in order within 5 s. At exit a summary goes to standard error.",
    "rhizome serve -m model.gguf -c 8192 --port 8080     with a quarter of the memory\n"
    "rhizome serve -m model.gguf --memory 2GiB --exact   the answers of a server without a cache\n"
    "rhizome serve -m model.gguf --metrics-port 9090     counters at http://127.0.0.1:9090/metrics\n"
    "rhizome serve -- --help                             the flags of llama-server",
    true,
};

constexpr CommandText kRun{
    "run",
    "Start a stock, dynamically linked llama.cpp program with the cache attached",
    "run [cache flags] -- PROGRAM ARGS...",
    "Starts PROGRAM with librhizome_llama.so preloaded. A llama.cpp program that is dynamically linked, and every one "
    "that it starts, finds the cache attached; all other programs are left alone. Its standard streams, the signals "
    "it gets and its exit status are its own.",
    "rhizome run -- llama-server -m model.gguf -np 4 -kvu    the llama-server there is, with the cache\n"
    "rhizome run --memory 1GiB -- llama-cli -m model.gguf    at most 1GiB of cached blocks",
    true,
};

constexpr CommandText kBench{
    "bench",
    "Run a benchmark beside the structure that it is compared against",
    "bench NAME [CASE...] [--quick] [--json]",
    "",  // rhizome bench --help says it itself
    "rhizome bench agents --quick    agents that share a prompt, stock and with the cache",
    false,
};

constexpr CommandText kReplay{
    "replay",
    "Play a trace of requests against caches of given sizes, under each eviction order",
    "replay TRACE [--capacity N,N%,...] [--json]",
    "",  // rhizome replay --help says it itself
    "rhizome replay conversation    Mooncake's trace, beside LRU and who knows the future",
    false,
};

constexpr CommandText kInspect{
    "inspect",
    "Say what is in a cache directory, a segment or an image, and what does not verify",
    "inspect PATH [--json]",
    "PATH is a directory of the disk tier (blocks in the --cache-dir of serve and run), one of its segments "
    "(segment-00000), or the image of one block. Everything in it is read and checked: headers, footers, the head, key "
    "and checksum of each record, and each block's key against its parent and tokens. What does not verify is listed, "
    "with the reason. With --json one object goes to standard output.\n\n"
    "Nothing is changed and no lock is taken: a directory that a living process has open may be looked at, too, and is "
    "said to be live. The exit status is 0 when everything verifies, 1 when something does not or cannot be read.",
    "rhizome inspect ~/.cache/rhizome/blocks                all segments of a cache\n"
    "rhizome inspect segment-00003 --json | jq .faults      what is wrong with one",
    false,
};

constexpr std::array kCommands = {kServe, kRun, kBench, kReplay, kInspect};

}  // namespace

std::span<const CommandText> commands() {
  return kCommands;
}

const CommandText* find_command(std::string_view name) {
  for (const CommandText& command : kCommands) {
    if (command.name == name) return &command;
  }
  return nullptr;
}

}  // namespace rhizome
