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
    "Its blocks lie in the memory of a node: this host's (rhizome daemon, or the serve or run that was first), else it "
    "becomes that node itself, so that those that come after it share them. --attach none keeps them apart.\n\n"
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

constexpr CommandText kDaemon{
    "daemon",
    "The host's node: one cache for all engines of this user on this machine",
    "daemon [cache flags]",
    "Keeps the memory and the disk that serve and run attach to when they find it: what one of them has computed, all "
    "of "
    "them have. It listens on node.sock in the runtime directory, beside which node.pid holds the number of its "
    "process. "
    "There is one for each user; a second one says so and ends.\n\n"
    "With --tenant given several times, or with commas between (also in RHIZOME_TENANT and in a --config file), each "
    "tenant has a cache of its own: none sees the blocks of another or takes the place of its blocks. --memory is "
    "divided equally, but for those that have a size: --tenant a=4GiB. --disk and --disk-writes are divided as the "
    "memory is; blocks of the first tenant lie in blocks below --cache-dir, those of the others below tenants.\n\n"
    "Without a daemon the first serve or run is the node for those that come after it, as long as it lives. When the "
    "node ends, engines go on computing, and one of those that were attached becomes the node.\n\n"
    "SIGINT and SIGTERM stop it in order within 5 s: what is not on disk yet is written.",
    "rhizome daemon --memory 16GiB --disk 100GiB     until it is told to stop\n"
    "rhizome daemon --metrics-port 9090 &            counters at http://127.0.0.1:9090/metrics\n"
    "rhizome daemon --tenant a --tenant b=4GiB       two caches that do not see each other",
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

constexpr CommandText kStats{
    "stats",
    "Say what a node holds, in memory and on disk, and what its engines had of it",
    "stats [--attach SOCKET] [--tenant NAME] [--json]",
    "Asks this host's node, or the one at SOCKET, for what it keeps for a tenant: in all, and for each keyspace, which "
    "is what must be the same for two prompts to share blocks (the model's weights, first of all). --tenant says which "
    "tenant of a daemon that has several. The last line is the sum over all engines that run now with this runtime "
    "directory, whatever their tenant and node: what they kept in their own slots, and what they restored.",
    "rhizome stats                            the node of this host\n"
    "rhizome stats --json | jq .memory        the same for programs",
    false,
};

constexpr CommandText kClear{
    "clear",
    "Make a node forget its blocks",
    "clear [--attach SOCKET] [--tenant NAME] [--keyspace DIGITS] [--yes] [--json]",
    "Forgets all blocks of a tenant that nobody uses at the moment, or those of one keyspace: DIGITS are those that "
    "rhizome stats shows, or the first four or more of them. Asks before, on the terminal, unless --yes is given. "
    "The memory stays with the node, for the blocks that come next. Images on disk stay until their place is needed, "
    "and "
    "a node that starts later may find them.",
    "rhizome clear           asks, then forgets\n"
    "rhizome clear --yes     does not ask\n"
    "rhizome clear --keyspace 1f2e3d4c     one model's blocks, as rhizome stats names it",
    false,
};

constexpr CommandText kTop{
    "top",
    "Watch a node: how full it is, and what is looked up, restored, computed and stored",
    "top [--attach SOCKET] [--tenant NAME] [--once] [--json]",
    "Draws a screen every second on a terminal, and prints a line every second elsewhere. With --once, one screen. "
    "SIGINT ends it. Rates are those of all engines that run with this runtime directory.",
    "rhizome top            until Ctrl-C\n"
    "rhizome top --once     one look",
    false,
};

constexpr CommandText kDoctor{
    "doctor",
    "Say what this machine offers, and what falls back to what where it does not",
    "doctor [--json]",
    "Tries what the cache can make use of: huge pages in shared memory, sealed memory, local sockets and the end of "
    "processes, io_uring, limits, the processor's instructions, the clock. Nothing is needed for a cache inside an "
    "engine's process; where sealed memory or sockets are missing no memory is shared.",
    "rhizome doctor            a line for each, and what happens without it\n"
    "rhizome doctor --json     the same for programs",
    false,
};

constexpr std::array kCommands = {kServe, kRun, kDaemon, kStats, kClear, kTop, kDoctor, kBench, kReplay, kInspect};

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
