#include "bench/kv_capture.h"

#include <memory>
#include <string_view>

#include <nlohmann/json.hpp>

#include "bench/http_chat.h"
#include "bench/prose.h"
#include "machine/files.h"

namespace rhizome::bench {
namespace {

constexpr size_t kQuickCharacters = 1400;
constexpr uint64_t kSavedBytesMax = uint64_t{4} << 30;
constexpr const char* kSavedName = "kv";

ServerPlan server_plan(const CapturePlan& plan, const std::string& folder) {
  const char* type = plan.element_type == ElementType::kF16 ? "f16" : "bf16";
  ServerPlan server;
  server.model = plan.model;
  // With flash attention, because llama.cpp keeps bf16 rows of V in no other way.
  server.arguments = {"-t", plan.quick ? "1" : "2", "-np", "1", "-c", "4096", "-ctk", type, "-ctv", type, "-fa",
                      "on", "--slot-save-path",     folder};
  return server;
}

}  // namespace

Result<KvRows> capture_kv(Fleet& fleet, const CapturePlan& plan) {
  const Result<std::unique_ptr<Server>> server = fleet.start(server_plan(plan, fleet.folder()));
  if (!server) return fail(server.error());
  const std::string_view text = plan.quick ? prose().substr(0, kQuickCharacters) : prose();
  // The server wants to generate one token at least; it has no row in the cache yet when it is answered.
  const nlohmann::json read = {{"prompt", text}, {"n_predict", 1}, {"cache_prompt", false}, {"id_slot", 0}};
  const Result<std::string> answer = http_post((*server)->port(), "/completion", read.dump());
  if (!answer) return fail(answer.error());
  const nlohmann::json save = {{"filename", kSavedName}};
  const Result<std::string> saved = http_post((*server)->port(), "/slots/0?action=save", save.dump());
  if (!saved) return fail(saved.error());
  const std::string path = fleet.folder() + "/" + kSavedName;
  const Result<std::vector<std::byte>> file = read_file(path, kSavedBytesMax);
  if (const Status removed = remove_file(path); !removed) return fail(removed.error());
  if (!file) return fail(file.error());
  return KvRows::from_saved_slot(*file);
}

}  // namespace rhizome::bench
