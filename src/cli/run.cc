#include <cstdio>
#include <optional>

#include "cli/command_text.h"
#include "cli/elf_file.h"
#include "cli/exit_status.h"
#include "cli/help.h"
#include "cli/parse.h"
#include "cli/serve.h"
#include "cli/session.h"
#include "cli/split.h"
#include "cli/supervise.h"
#include "machine/files.h"
#include "machine/host.h"
#include "telemetry/log.h"

namespace rhizome {
namespace {

// As shells say it.
constexpr int kNotFound = 127;
constexpr int kNotStarted = 126;
constexpr uint64_t kListingPatience = 5'000'000'000;
constexpr uint64_t kListingMost = uint64_t{1} << 20;

int refuse(int status, const std::string& line) {
  log_error("{}", line);
  return status;
}

// Where the kernel will find the program; nothing when it is in no directory of PATH.
std::optional<std::string> find_program(const std::string& name, const Environment& environment) {
  if (name.find('/') != std::string::npos) return name;
  const std::string path = environment("PATH").value_or("/usr/local/bin:/usr/bin:/bin");
  for (size_t at = 0; at <= path.size();) {
    const size_t end = std::min(path.find(':', at), path.size());
    const std::string directory = path.substr(at, end - at);
    const std::string candidate = (directory.empty() ? "." : directory) + "/" + name;
    if (stamp_file(candidate)) return candidate;
    at = end + 1;
  }
  return std::nullopt;
}

// Asks the program's own dynamic linker, as ldd does, so that its paths and its caches count.
std::vector<std::string> needed_libraries(const ElfFile& program, const std::string& path, const std::string& scratch) {
  SpawnOptions options;
  options.stdin_path = "/dev/null";
  options.stdout_path = scratch;
  options.stderr_path = "/dev/null";
  options.environment_removed = {"LD_PRELOAD"};
  options.die_with_parent = true;
  auto listing = Child::spawn({program.interpreter, "--list", path}, options);
  std::vector<std::string> libraries;
  if (listing) {
    if (!listing->wait_for(kListingPatience)) listing->terminate(0);
    if (const auto text = read_text_file(scratch, kListingMost)) libraries = listed_libraries(*text);
  }
  (void)remove_file(scratch);
  return libraries;
}

bool uses_llama(const ElfFile& program, const std::string& path, const std::string& scratch) {
  if (program.names_llama) return true;
  for (const std::string& library : needed_libraries(program, path, scratch)) {
    const auto needed = inspect_elf(library);
    if (needed && needed->names_llama) return true;
  }
  return false;
}

// A program that the library cannot see would run as if nothing had been asked for. The library is not in
// it to say so, hence this.
void say_what_cannot_be_seen(const std::string& name, const Environment& environment, const std::string& scratch) {
  const auto path = find_program(name, environment);
  if (!path) return;
  const auto program = inspect_elf(*path);
  if (!program || program->linkage == Linkage::kNotElf) return;
  const char* rest = "the cache is attached only to dynamically linked llama.cpp programs that it starts or loads";
  if (program->linkage == Linkage::kStatic) {
    log_warning("{} is statically linked: {}", name, rest);
  } else if (!uses_llama(*program, *path, scratch)) {
    log_warning("{} does not use a llama.cpp library itself: {}", name, rest);
  }
}

OrComplaint<std::string> preload(const std::string& library, const Environment& environment) {
  if (!stamp_file(library)) return complain("the library is not at " + library + ": build or install it (make build)");
  // The dynamic linker takes both for ends of a name, and knows no way to quote them.
  if (library.find_first_of(" :") != std::string::npos) {
    return complain("the library's path " + library + " has a space or a colon, which LD_PRELOAD cannot carry");
  }
  const auto before = environment("LD_PRELOAD");
  return before ? library + ":" + *before : library;
}

int run_program(const CacheFlags& flags, const std::vector<std::string>& line, const Environment& environment) {
  const auto parts = find_parts();
  if (!parts) return refuse(kFailed, parts.error());
  auto signals = SignalWait::create();
  if (!signals) return refuse(kFailed, signals.error().reason);
  auto session = Session::open(flags, environment);
  if (!session) return refuse(kFailed, session.error());

  SpawnOptions options = session->spawn_options();
  if (!flags.off) {
    const auto preloaded = preload(parts->library, environment);
    if (!preloaded) return refuse(kFailed, preloaded.error());
    options.environment.emplace_back("LD_PRELOAD", *preloaded);
    say_what_cannot_be_seen(line.front(), environment, session->scratch_path());
  }
  auto child = Child::spawn(line, options);
  if (!child) {
    const bool absent = child.error().code == Code::kNotFound;
    return refuse(absent ? kNotFound : kNotStarted,
                  line.front() + (absent ? ": there is no such program" : ": cannot be started: ") +
                      (absent ? "" : child.error().reason));
  }
  const ExitStatus status = supervise_program(*child, *signals);
  session->finish();
  return status.shell_status();
}

}  // namespace

int run_main(const std::vector<std::string>& arguments) {
  const Environment environment = process_environment;
  const CommandText& command = *find_command("run");
  const auto split = split_run(arguments);
  if (!split) return refuse(kWrongCall, split.error());
  if (split->help) {
    std::fputs(command_help(command).c_str(), stdout);
    return kDone;
  }
  const auto given = parse_flags(command, split->ours, environment);
  if (!given) return refuse(kWrongCall, given.error());
  const auto flags = check_flags(*given, total_memory_bytes(), environment);
  if (!flags) return refuse(kWrongCall, flags.error());
  if (const auto wrong = more_than_a_tenant(*flags)) return refuse(kWrongCall, *wrong);
  return run_program(*flags, split->theirs, environment);
}

}  // namespace rhizome
