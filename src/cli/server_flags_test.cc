#include "cli/server_flags.h"

#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace rhizome {
namespace {

using Words = std::vector<std::string>;
using Variables = std::map<std::string, std::string>;

Environment environment_of(Variables variables) {
  return [variables = std::move(variables)](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

Words flags_of(const CacheFlags& flags, const Words& theirs, const Variables& variables = {}) {
  const auto call = server_call(flags, theirs, environment_of(variables));
  return call ? call->flags : Words{"complaint: " + call.error()};
}

CacheFlags switched(bool off, bool exact) {
  CacheFlags flags;
  flags.off = off;
  flags.exact = exact;
  return flags;
}

const CacheFlags kDefault = switched(false, false);
const CacheFlags kExact = switched(false, true);
const CacheFlags kOff = switched(true, false);

TEST(ServerCall, SwitchesTheServersOwnCachesOff) {
  EXPECT_EQ(flags_of(kDefault, {"-m", "a", "-np", "2"}),
            (Words{"-m", "a", "-np", "2", "-kvu", "--cache-ram", "0", "--ctx-checkpoints", "0"}));
}

TEST(ServerCall, ChangesNothingWhenOff) {
  EXPECT_EQ(flags_of(kOff, {"-m", "a", "-c", "512"}), (Words{"-m", "a", "-c", "512"}));
  EXPECT_EQ(flags_of(switched(true, true), {"-c", "512"}), (Words{"-c", "512"}));
}

TEST(ServerCall, LeavesWhatThePersonGave) {
  EXPECT_EQ(flags_of(kDefault, {"-cram", "100", "--swa-checkpoints", "3", "-no-kvu"}),
            (Words{"-cram", "100", "--swa-checkpoints", "3", "-no-kvu"}));
  EXPECT_EQ(flags_of(kDefault, {"--cache_ram", "100", "--ctx_checkpoints", "3", "--kv_unified"}),
            (Words{"--cache_ram", "100", "--ctx_checkpoints", "3", "--kv_unified"}));
  EXPECT_EQ(flags_of(kDefault, {"x"},
                     {{"LLAMA_ARG_CACHE_RAM", "1"}, {"LLAMA_ARG_CTX_CHECKPOINTS", "1"}, {"LLAMA_ARG_KV_UNIFIED", "0"}}),
            (Words{"x"}));
}

TEST(ServerCall, GivesEachSlotItsContextWhenExact) {
  const Words ours = {"--cache-ram", "0", "--ctx-checkpoints", "0"};
  const auto with_ours = [&](Words words) {
    words.insert(words.end(), ours.begin(), ours.end());
    return words;
  };
  EXPECT_EQ(flags_of(kExact, {"-c", "4096", "-np", "8"}), with_ours({"-c", "32768", "-np", "8"}));
  EXPECT_EQ(flags_of(kExact, {"-c", "4096", "-x"}), with_ours({"-c", "16384", "-x", "-np", "4"}));
  EXPECT_EQ(flags_of(kExact, {"-c", "1", "--ctx-size", "100", "-np", "-1"}),
            with_ours({"-c", "1", "--ctx-size", "400", "-np", "4"}));
  EXPECT_EQ(flags_of(kExact, {}, {{"LLAMA_ARG_CTX_SIZE", "100"}, {"LLAMA_ARG_N_PARALLEL", "3"}}),
            with_ours({"-c", "300"}));
  EXPECT_EQ(flags_of(kExact, {"-np", "1", "-c", "100"}), with_ours({"-np", "1", "-c", "100"}));
}

TEST(ServerCall, SaysThatTheContextIsDividedWhenExactHasNoNumber) {
  for (const Words& theirs : {Words{"-np", "2"}, Words{"-np", "2", "-c", "0"}}) {
    const auto call = server_call(kExact, theirs, environment_of({}));
    ASSERT_TRUE(call);
    ASSERT_EQ(call->notes.size(), 1U);
    EXPECT_NE(call->notes[0].find("divided among 2 slots"), std::string::npos);
  }
}

TEST(ServerCall, LeavesNumbersThatTheServerRefuses) {
  const Words ours = {"--cache-ram", "0", "--ctx-checkpoints", "0"};
  EXPECT_EQ(flags_of(kExact, {"-c", "many", "-np", "2"})[1], "many");
  EXPECT_EQ(flags_of(kExact, {"-c", "100", "-np", "two"})[1], "100");
  EXPECT_EQ(flags_of(kExact, {"-np", "2", "-c"})[2], "-c");
}

TEST(ServerCall, RefusesWhatContradictsExact) {
  EXPECT_NE(flags_of(kExact, {"-kvu"})[0].find("-kvu and --exact exclude each other"), std::string::npos);
  EXPECT_EQ(flags_of(kExact, {"-no-kvu", "-c", "10", "-np", "1"})[0], "-no-kvu");
  EXPECT_EQ(flags_of(kExact, {"-c", "10", "-np", "1"}, {{"LLAMA_ARG_KV_UNIFIED", "1"}})[4], "-no-kvu");
  EXPECT_NE(flags_of(kExact, {"-c", "2000000000", "-np", "2"})[0].find("complaint"), std::string::npos);
}

TEST(ServerModel, IsTheLastOneOnTheLine) {
  EXPECT_EQ(server_model({"-m", "a", "--model", "b"}, environment_of({})), "b");
  EXPECT_EQ(server_model({"-x"}, environment_of({{"LLAMA_ARG_MODEL", "c"}})), "c");
  EXPECT_EQ(server_model({"-m", "a"}, environment_of({{"LLAMA_ARG_MODEL", "c"}})), "a");
  EXPECT_EQ(server_model({"-m"}, environment_of({})), std::nullopt);
  EXPECT_TRUE(needs_no_model_file({"-hf", "x/y"}, environment_of({})));
  EXPECT_TRUE(needs_no_model_file({"--help"}, environment_of({})));
  EXPECT_TRUE(needs_no_model_file({}, environment_of({{"LLAMA_ARG_HF_REPO", "x/y"}})));
  EXPECT_FALSE(needs_no_model_file({"-c", "1"}, environment_of({})));
}

}  // namespace
}  // namespace rhizome
