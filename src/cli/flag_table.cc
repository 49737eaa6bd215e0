#include "cli/flag_table.h"

#include <array>
#include <cctype>

namespace rhizome {
namespace {

constexpr std::array kFlags = {
    Flag{"memory", "SIZE", "a quarter of the machine's memory, at most 8GiB", "Memory that cached blocks may take."},
    Flag{"disk", "SIZE", "off",
         "Disk that cached blocks may take, below --cache-dir: what memory has no room for, and what a restart finds."},
    Flag{"disk-writes", "SIZE", "no limit",
         "What may be written to that disk in a day, so that it lives as long as it should."},
    Flag{"exclusive", "", "",
         "A block that is loaded from that disk leaves it, and is written again when it leaves memory: more room, more "
         "writes, and less that a restart finds."},
    Flag{"watermarks", "HIGH:LOW", "98:97",
         "With --disk: blocks leave memory when more than HIGH percent of it is full, until less than LOW is."},
    Flag{"block-tokens", "N", "16", "Tokens in a block: 16, 32, 64, 128 or 256."},
    Flag{"off", "", "", "Attach nothing: the stock program, untouched."},
    Flag{"no-restore", "", "", "Compute everything and still store it: the cold side of a comparison."},
    Flag{"exact", "", "",
         "Answers are bit for bit those of a run with nothing cached. Rows of one conversation are computed alone, "
         "so many conversations at once generate more slowly."},
    Flag{"verify", "WHEN", "tier",
         "When a checksum is compared: always, tier (when a block comes up from a tier) or sample (1 hit in 64). "
         "What is handed to llama.cpp is always verified."},
    Flag{"tenant", "NAME", "",
         "A keyspace of its own: nothing is shared with other tenants. daemon takes several, each with memory and disk "
         "of its own: equal shares, or --tenant NAME=SIZE.",
         true},
    Flag{"cache-dir", "DIR", "$XDG_CACHE_HOME/rhizome, else ~/.cache/rhizome",
         "Where what outlives a process is kept."},
    Flag{"attach", "SOCKET|none", "the host's node, or to be it",
         "The node whose memory is used. Without this flag that is the host's, or this process becomes it where there "
         "is none. With 'none' this call keeps its cache for itself."},
    Flag{"metrics-port", "N", "off", "Serve /metrics and /health on 127.0.0.1 at this port; 0 picks a free one."},
    Flag{"config", "FILE", "", "A TOML file with flags by their names, for example memory = \"4GiB\"."},
    Flag{"json", "", "", "At exit, the summary as one JSON object on standard output."},
};

struct Refused {
  std::string_view name;
  std::string_view line;
};

constexpr std::array kRefused = {
    Refused{"redis", "this version has no Redis tier; blocks are kept in memory (--memory) and on disk (--disk)"},
    Refused{"s3", "this version has no S3 tier; blocks are kept in memory (--memory) and on disk (--disk)"},
};

std::string_view bare(std::string_view name) {
  if (name.starts_with("--")) name.remove_prefix(2);
  return name;
}

}  // namespace

std::span<const Flag> cache_flags() {
  return kFlags;
}

const Flag* find_flag(std::string_view name) {
  for (const Flag& flag : kFlags) {
    if (flag.name == bare(name)) return &flag;
  }
  return nullptr;
}

std::string environment_name(std::string_view flag) {
  std::string name = "RHIZOME_";
  for (const char c : bare(flag)) {
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

std::optional<std::string> refused_flag(std::string_view argument) {
  if (!argument.starts_with("--")) return std::nullopt;
  const std::string_view name = bare(argument.substr(0, argument.find('=')));
  for (const Refused& refused : kRefused) {
    if (refused.name == name) return "--" + std::string(name) + ": " + std::string(refused.line);
  }
  return std::nullopt;
}

}  // namespace rhizome
