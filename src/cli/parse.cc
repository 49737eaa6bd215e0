#include "cli/parse.h"

#include <algorithm>
#include <cstdlib>

#include <CLI/CLI.hpp>

#include "cli/flag_table.h"

namespace rhizome {
namespace {

// CLI11 reads words and files; what help says is made elsewhere, so nothing here carries text.
struct Parser {
  explicit Parser(const CommandText& command);

  CLI::App app;
  std::map<std::string, std::string, std::less<>> values;
  std::map<std::string, bool, std::less<>> switches;
};

Parser::Parser(const CommandText& command) : app("", std::string(command.name)) {
  app.set_help_flag("");  // found before anything is parsed
  app.allow_config_extras(CLI::config_extras_mode::error);
  for (const Flag& flag : cache_flags()) {
    const std::string name = "--" + std::string(flag.name);
    CLI::Option* option = nullptr;
    if (flag.name == "config") {
      option = app.set_config(name);
    } else if (flag.is_switch()) {
      option = app.add_flag(name, switches[std::string(flag.name)]);
    } else {
      option = app.add_option(name, values[std::string(flag.name)]);
    }
    option->take_last();
  }
}

// What the environment says comes first on the line, so that what was typed overrides it.
std::vector<std::string> with_environment(const std::vector<std::string>& arguments, const Environment& environment) {
  std::vector<std::string> line;
  for (const Flag& flag : cache_flags()) {
    if (auto value = environment(environment_name(flag.name)))
      line.push_back("--" + std::string(flag.name) + "=" + *value);
  }
  line.insert(line.end(), arguments.begin(), arguments.end());
  return line;
}

std::string source_of(const Flag& flag, const std::vector<std::string>& arguments, const Environment& environment,
                      const std::string& file) {
  const std::string dashed = "--" + std::string(flag.name);
  for (const std::string& argument : arguments) {
    if (argument == dashed || argument.starts_with(dashed + "=")) return dashed;
  }
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
    } else if (flag.is_switch()) {
      value.text = parser.switches[std::string(flag.name)] ? "true" : "false";
    } else {
      value.text = parser.values[std::string(flag.name)];
    }
    given.emplace(flag.name, std::move(value));
  }
  return given;
}

}  // namespace rhizome
