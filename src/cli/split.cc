#include "cli/split.h"

#include <iterator>

#include "cli/flag_table.h"

namespace rhizome {
namespace {

// Moves one flag of the table, and its value when that stands in the next argument.
// Nothing: `arguments[at]` is not in the table.
OrComplaint<bool> take_own(const std::vector<std::string>& arguments, size_t& at, SplitCall& split) {
  const std::string& argument = arguments[at];
  if (auto refused = refused_flag(argument)) return complain(*refused);
  if (argument == "--help" || argument == "-h") {
    split.help = true;
    return true;
  }
  if (!argument.starts_with("--")) return false;
  const size_t equals = argument.find('=');
  const Flag* flag = find_flag(argument.substr(0, equals));
  if (flag == nullptr) return false;
  split.ours.push_back(argument);
  if (flag->is_switch() || equals != std::string::npos) return true;
  if (at + 1 == arguments.size() || arguments[at + 1] == "--") {
    return complain(argument + " needs a value: " + argument + " " + std::string(flag->value));
  }
  split.ours.back() += "=" + arguments[++at];
  return true;
}

}  // namespace

OrComplaint<SplitCall> split_serve(const std::vector<std::string>& arguments) {
  SplitCall split;
  for (size_t at = 0; at < arguments.size(); ++at) {
    if (arguments[at] == "--") {
      split.theirs.insert(split.theirs.end(), arguments.begin() + static_cast<ptrdiff_t>(at) + 1, arguments.end());
      break;
    }
    const auto own = take_own(arguments, at, split);
    if (!own) return complain(own.error());
    if (!*own) split.theirs.push_back(arguments[at]);
  }
  return split;
}

OrComplaint<SplitCall> split_run(const std::vector<std::string>& arguments) {
  SplitCall split;
  for (size_t at = 0; at < arguments.size(); ++at) {
    const bool dashes = arguments[at] == "--";
    if (dashes || !arguments[at].starts_with("-")) {
      const auto first = arguments.begin() + static_cast<ptrdiff_t>(at) + (dashes ? 1 : 0);
      split.theirs.assign(first, arguments.end());
      break;
    }
    const auto own = take_own(arguments, at, split);
    if (!own) return complain(own.error());
    if (!*own) return complain("run: there is no flag " + arguments[at] + "; the program's own flags come after --");
  }
  if (split.theirs.empty() && !split.help)
    return complain("run needs a program: rhizome run [flags] -- PROGRAM ARGS...");
  return split;
}

}  // namespace rhizome
