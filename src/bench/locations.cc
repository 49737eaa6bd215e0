#include "bench/locations.h"

#include <cstdlib>
#include <filesystem>

#include "machine/files.h"

namespace rhizome::bench {
namespace {

constexpr const char* kFullModel = "SmolLM2-135M-Instruct.Q4_1.gguf";
constexpr const char* kQuickModel = "smollm2-2-layers.gguf";
constexpr const char* kWindowModel = "window-random.gguf";

std::string environment_or(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != 0 ? value : otherwise;
}

}  // namespace

std::string setup_cache() {
  const std::string home = environment_or("HOME", "/");
  const std::string caches = environment_or("XDG_CACHE_HOME", home + "/.cache");
  return environment_or("RHIZOME_SETUP_CACHE", caches + "/rhizome-setup");
}

Result<Locations> find_locations(const std::string& program, const std::string& model, std::string& missing) {
  Locations where;
  where.program = program;
  const std::filesystem::path prefix = std::filesystem::path(program).parent_path().parent_path();
  where.stock_server = environment_or("RHIZOME_STOCK_SERVER", (prefix / "libexec/stock/llama-server").string());
  const std::string models = setup_cache() + "/models/";
  where.full_model = model.empty() ? models + kFullModel : model;
  where.quick_model = models + kQuickModel;
  where.window_model = models + kWindowModel;
  const struct {
    const char* what;
    const std::string& path;
    const char* remedy;
  } wanted[] = {{"the stock llama-server", where.stock_server, "`make build` puts it there"},
                {"the model", where.full_model, "`make setup` fetches it"},
                {"the two-layer model", where.quick_model, "`make setup` makes it"},
                {"the sliding-window model", where.window_model, "`make setup` makes it"}};
  for (const auto& file : wanted) {
    if (stamp_file(file.path)) continue;
    missing = std::string(file.what) + " is not at " + file.path +
              (model == file.path ? "" : std::string(": ") + file.remedy);
    return fail(Code::kNotFound, "something to measure with is missing");
  }
  return where;
}

}  // namespace rhizome::bench
