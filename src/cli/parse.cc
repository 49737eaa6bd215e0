#include "cli/parse.h"

#include <algorithm>
#include <cstdlib>
#include <istream>
#include <memory>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/flag_table.h"

namespace rhizome {
namespace {

// CLI11's reader. An empty list in a file is an empty value: CLI11 would look at the first of what is not there.
class FlagFile : public CLI::ConfigTOML {
 public:
  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    std::vector<CLI::ConfigItem> read = CLI::ConfigTOML::from_config(input);
    for (CLI::ConfigItem& item : read) {
      const Flag* const flag = find_flag(item.name);
      if (flag != nullptr && !flag->is_switch() && item.inputs.empty()) item.inputs.emplace_back();
    }
    return read;
  }
};

// CLI11 reads words and files; what help says is made elsewhere, so nothing here carries text.
struct Parser {
  explicit Parser(const CommandText& command);

  CLI::App app;
  std::map<std::string, std::string, std::less<>> values;  // also of switches
};

Parser::Parser(const CommandText& command) : app("", std::string(command.name)) {
  app.set_help_flag("");  // found before anything is parsed
  app.allow_config_extras(CLI::config_extras_mode::error);
  app.config_formatter(std::make_unique<FlagFile>());
  for (const Flag& flag : cache_flags()) {
    const std::string name = "--" + std::string(flag.name);
    CLI::Option* option = nullptr;
    if (flag.name == "config") {
      option = app.set_config(name);
    } else if (flag.is_switch()) {
      option = app.add_flag(name, values[std::string(flag.name)]);
    } else {
      option = app.add_option(name, values[std::string(flag.name)]);
    }
    if (flag.is_list && command.name == "daemon") {
      option->join();  // with line ends: given a comma, CLI11 would also divide at it, and "," into nothing at all
    } else {
      option->take_last();
    }
  }
}

bool is_given(const Flag& flag, const std::vector<std::string>& arguments) {
  const std::string dashed = "--" + std::string(flag.name);
  return std::ranges::any_of(arguments,
                             [&](const std::string& word) { return word == dashed || word.starts_with(dashed + "="); });
}

// A value that is not there, or empty, in words of ours.
std::optional<std::string> check_values(const std::vector<std::string>& arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    const size_t equals = word.find('=');
    const Flag* const flag = word.starts_with("--") ? find_flag(word.substr(0, equals)) : nullptr;
    if (flag == nullptr || flag->is_switch()) continue;
    const std::string usage = "--" + std::string(flag->name) + " " + std::string(flag->value);
    const bool is_next = equals == std::string::npos;
    if (is_next && (i + 1 == arguments.size() || arguments[i + 1].starts_with("--"))) {
      return word + " needs a value: " + usage;
    }
    if ((is_next ? arguments[++i] : word.substr(equals + 1)).empty()) {
      return "--" + std::string(flag->name) + " is ''; it needs a value: " + usage;
    }
  }
  return std::nullopt;
}

// As the help says it, and as files have it.
std::optional<std::string> switch_text(std::string_view text) {
  if (text == "1" || text == "true" || text == "on" || text == "yes") return "true";
  if (text == "0" || text == "false" || text == "off" || text == "no") return "false";
  return std::nullopt;
}

// What the environment says comes first on the line; what was typed goes before it.
std::vector<std::string> with_environment(const std::vector<std::string>& arguments, const Environment& environment) {
  std::vector<std::string> line;
  for (const Flag& flag : cache_flags()) {
    if (is_given(flag, arguments)) continue;
    if (auto value = environment(environment_name(flag.name)))
      line.push_back("--" + std::string(flag.name) + "=" + *value);
  }
  line.insert(line.end(), arguments.begin(), arguments.end());
  return line;
}

std::string source_of(const Flag& flag, const std::vector<std::string>& arguments, const Environment& environment,
                      const std::string& file) {
  if (is_given(flag, arguments)) return "--" + std::string(flag.name);
  if (environment(environment_name(flag.name))) return environment_name(flag.name);
  return std::string(flag.name) + " in " + file;
}

}  // namespace

std::optional<std::string> process_environment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

OrComplaint<Given> parse_flags(const CommandText& command, const std::vector<std::string>& arguments,
                               const Environment& environment) {
  if (const auto wrong = check_values(arguments)) return complain(*wrong);
  Parser parser(command);
  std::vector<std::string> line = with_environment(arguments, environment);
  std::reverse(line.begin(), line.end());  // CLI11 takes the words from the back
  try {
    parser.app.parse(std::move(line));
  } catch (const CLI::FileError& error) {
    return complain(std::string("--config: ") + error.what());
  } catch (const CLI::ConfigError& error) {
    // CLI11 speaks of INI, and does not say that it knows no such flag.
    constexpr std::string_view kUnknown = "INI was not able to parse ";
    const std::string_view said = error.what();
    if (said.starts_with(kUnknown)) {
      return complain("the --config file: there is no flag '" + std::string(said.substr(kUnknown.size())) + "'");
    }
    return complain("the --config file: " + std::string(said));
  } catch (const CLI::ExtrasError&) {
    return complain(std::string(command.name) + ": there is no flag or argument '" + parser.app.remaining().front() +
                    "' (rhizome " + std::string(command.name) + " --help)");
  } catch (const CLI::ParseError& error) {
    return complain(std::string(command.name) + ": " + error.what());
  }

  Given given;
  const std::string file =
      parser.app.get_config_ptr()->count() > 0 ? parser.app.get_config_ptr()->as<std::string>() : "";
  for (const Flag& flag : cache_flags()) {
    const CLI::Option* option = parser.app.get_option("--" + std::string(flag.name));
    if (option->count() == 0) continue;
    GivenValue value;
    value.source = source_of(flag, arguments, environment, file);
    if (flag.name == "config") {
      value.text = file;
    } else {
      value.text = parser.values[std::string(flag.name)];
    }
    if (flag.is_list) std::ranges::replace(value.text, '\n', ',');
    if (flag.is_switch()) {
      const auto text = switch_text(value.text);
      if (!text) return complain(value.source + " is '" + value.text + "'; it must be 1 or 0, or true or false");
      value.text = *text;
    }
    given.emplace(flag.name, std::move(value));
  }
  return given;
}

}  // namespace rhizome
