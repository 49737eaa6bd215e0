#include "cli/help.h"

#include <algorithm>

#include "cli/flag_table.h"

namespace rhizome {
namespace {

constexpr size_t kWidth = 100;
constexpr size_t kFlagColumn = 26;

std::string padded(std::string text, size_t width) {
  text.resize(std::max(width, text.size() + 1), ' ');
  return text;
}

std::string flag_line(std::string_view name, const std::string& text) {
  return wrapped(padded("  " + std::string(name), kFlagColumn) + text, kWidth, kFlagColumn) + "\n";
}

std::string examples(const CommandText& command) {
  return "\nExamples:\n  " + wrapped(command.example, std::string::npos, 2) + "\n";
}

}  // namespace

std::string wrapped(std::string_view text, size_t width, size_t indent) {
  std::string lines;
  size_t start = 0;     // of the line that is being filled
  size_t words = 0;     // where its words begin
  size_t last_gap = 0;  // where it may be broken; nowhere when that is not behind `words`
  for (const char c : text) {
    if (c == '\n') {
      lines += c;
      start = lines.size();
      lines.append(indent, ' ');
      words = last_gap = lines.size();
      continue;
    }
    lines += c;
    if (c == ' ') last_gap = lines.size() - 1;
    if (lines.size() - start <= width || last_gap <= words) continue;
    lines.replace(last_gap, 1, "\n" + std::string(indent, ' '));
    start = last_gap + 1;
    words = last_gap = start + indent;
  }
  return lines;
}

std::string program_help() {
  std::string text =
      "Usage: rhizome COMMAND ...\n\n"
      "A KV cache under every agent, engine and machine: prefill once.\n\n"
      "Commands:\n";
  for (const CommandText& command : commands()) {
    text += padded("  " + std::string(command.name), 10) + std::string(command.line) + "\n";
  }
  text +=
      "\n  rhizome COMMAND --help says more about one of them\n"
      "  rhizome --version        versions of the program, the engine and the formats\n\n"
      "Example:\n  rhizome serve -m model.gguf --port 8080\n";
  return text;
}

std::string command_help(const CommandText& command) {
  std::string text = "Usage: rhizome " + std::string(command.usage) + "\n\n";
  text += wrapped(command.description, kWidth, 0) + "\n";
  if (!command.takes_cache_flags) return text + examples(command);
  text += "\nCache flags:\n";
  text += flag_line("-h, --help", "Print this.");
  for (const Flag& flag : cache_flags()) {
    std::string name = "--" + std::string(flag.name);
    if (!flag.is_switch()) name += " " + std::string(flag.value);
    std::string meaning(flag.text);
    if (!flag.fallback.empty()) meaning += " Default: " + std::string(flag.fallback) + ".";
    text += flag_line(name, meaning);
  }
  text += "\n" +
          wrapped(
              "Every flag may also be set as RHIZOME_NAME in the environment (RHIZOME_BLOCK_TOKENS=32), or as a "
              "line of the --config file.",
              kWidth, 0) +
          "\n";
  return text + examples(command);
}

}  // namespace rhizome
