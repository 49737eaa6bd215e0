#include "cli/tenant_shares.h"

#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace rhizome {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kGiB = 1 << 30;

OrComplaint<std::vector<TenantShare>> shares_of(const std::string& tenants, const SharedSizes& sizes) {
  return share_out({tenants, "--tenant"}, sizes);
}

SharedSizes some_sizes() {
  return {.memory_bytes = 8 * kGiB, .disk_bytes = 80 * kGiB, .disk_bytes_per_day = 16 * kGiB, .cache_dir = "/c"};
}

TEST(TenantShares, AnOnlyTenantHasEverythingWhereItWas) {
  const auto shares = shares_of("me", some_sizes());
  ASSERT_TRUE(shares) << shares.error();
  ASSERT_EQ(shares->size(), 1u);
  EXPECT_EQ(shares->front().name, "me");
  EXPECT_EQ(shares->front().memory_bytes, 8 * kGiB);
  EXPECT_EQ(shares->front().disk_bytes, 80 * kGiB);
  EXPECT_EQ(shares->front().disk_bytes_per_day, 16 * kGiB);
  EXPECT_EQ(shares->front().directory, "/c/blocks");
  EXPECT_FALSE(shares->front().has_own_size);
  EXPECT_EQ(shares_of("me", {.memory_bytes = 1})->front().memory_bytes, 1u) << "the store says that it is too small";
  EXPECT_EQ(shares_of("me=1GiB", some_sizes())->front().memory_bytes, kGiB);
  EXPECT_EQ(shares_of("me=1GiB", some_sizes())->front().disk_bytes, 80 * kGiB);
}

TEST(TenantShares, WhatIsLeftIsSharedEqually) {
  const auto shares = shares_of("a,b=6GiB,c", some_sizes());
  ASSERT_TRUE(shares) << shares.error();
  ASSERT_EQ(shares->size(), 3u);
  const std::vector<std::string> directories = {"/c/blocks", "/c/tenants/b/blocks", "/c/tenants/c/blocks"};
  const std::vector<uint64_t> parts = {1, 6, 1};
  for (size_t i = 0; i < 3; ++i) {
    const TenantShare& share = (*shares)[i];
    EXPECT_EQ(share.name, std::string(1, static_cast<char>('a' + i)));
    EXPECT_EQ(share.memory_bytes, parts[i] * kGiB);
    EXPECT_EQ(share.disk_bytes, parts[i] * 10 * kGiB);
    EXPECT_EQ(share.disk_bytes_per_day, parts[i] * 2 * kGiB);
    EXPECT_EQ(share.directory, directories[i]);
    EXPECT_EQ(share.has_own_size, i == 1);
  }
  // What nobody asked for is nobody's.
  const auto less = shares_of("a=1GiB,b=3GiB", some_sizes());
  ASSERT_TRUE(less) << less.error();
  EXPECT_EQ(less->front().memory_bytes, kGiB);
  EXPECT_EQ(less->front().disk_bytes, 20 * kGiB);
  EXPECT_EQ(shares_of("a,b", {.memory_bytes = kGiB})->back().disk_bytes, 0u);
}

TEST(TenantShares, NoTwoTenantsHaveOneDirectory) {
  std::set<std::string> directories;
  const auto shares = shares_of("first,a,A,a_b,a/b,a.b,..,../x,a_2fb,~,*,-", some_sizes());
  ASSERT_TRUE(shares) << shares.error();
  for (const TenantShare& share : *shares) {
    EXPECT_TRUE(directories.insert(share.directory).second) << share.directory;
    if (share.name == "first") continue;
    const std::string inside = share.directory.substr(std::string("/c/tenants/").size());
    EXPECT_EQ(inside.find('/'), inside.size() - std::string("/blocks").size()) << share.directory;
    EXPECT_EQ(inside.find('.'), std::string::npos) << share.directory;
  }
  EXPECT_LE(shares_of("a," + std::string(64, '/'), some_sizes())->back().directory.size(), 250u);
}

TEST(TenantShares, WhatIsWrongIsSaid) {
  const std::pair<std::string, std::string> cases[] = {
      {"a,b,a", "--tenant names a twice"},
      {"a,a=1GiB", "--tenant names a twice"},
      {"a,", "--tenant is ''; a tenant is 1 to 64"},
      {",a", "--tenant is ''; a tenant is 1 to 64"},
      {"=1GiB", "--tenant is '=1GiB'; a tenant is 1 to 64"},
      {"a b", "--tenant is 'a b'; a tenant is 1 to 64"},
      {"\xc3\xa4", "a tenant is 1 to 64"},
      {std::string(65, 'a'), "a tenant is 1 to 64"},
      {"a=", "--tenant is 'a='; after '=' it must be a size, for example a=4GiB"},
      {"a=12", "after '=' it must be a size"},
      {"a=x", "after '=' it must be a size"},
      {"a=1GiB=2GiB", "after '=' it must be a size"},
      {"a=0MiB,b", "a would have 0B of the memory; each tenant needs at least 4MiB"},
      {"a=1MiB", "a would have 1MiB of the memory"},
      {"a=9GiB", "--tenant: together they take more than --memory, which is 8GiB"},
      {"a=5GiB,b=4GiB", "together they take more than --memory"},
      {"a=16000000TiB,b=16000000TiB", ""},
      {"a=8GiB,b", "b would have 0B of the memory; each tenant needs at least 4MiB"},
      {"a=4MiB,b", "a would have 40MiB of --disk, which is divided as the memory is; each tenant needs at least 64MiB"},
  };
  for (const auto& [tenants, line] : cases) {
    const auto shares = shares_of(tenants, some_sizes());
    ASSERT_FALSE(shares) << tenants;
    EXPECT_NE(shares.error().find(line), std::string::npos) << shares.error();
  }
  std::string many;
  for (int i = 0; i < 100; ++i)
    many += (many.empty() ? "t" : ",t") + std::to_string(i);
  EXPECT_FALSE(shares_of(many, {.memory_bytes = 100 * kMiB}));
  EXPECT_TRUE(shares_of(many, {.memory_bytes = 400 * kMiB}));
}

}  // namespace
}  // namespace rhizome
