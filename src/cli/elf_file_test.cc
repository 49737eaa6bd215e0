#include "cli/elf_file.h"

#include <cstdio>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "machine/files.h"
#include "machine/host.h"

namespace rhizome {
namespace {

TEST(ElfFile, KnowsADynamicProgram) {
  const auto file = inspect_elf(*own_executable_path());
  ASSERT_TRUE(file);
  EXPECT_EQ(file->linkage, Linkage::kDynamic);
  EXPECT_TRUE(stamp_file(file->interpreter)) << file->interpreter;
  EXPECT_FALSE(file->names_llama);
}

TEST(ElfFile, KnowsWhatIsNoElf) {
  const std::string path = testing::TempDir() + "elf_file_test";
  for (const std::string& text : {std::string(""), std::string("#!/bin/sh\nexit 0\n"), std::string(200, 'x'),
                                  std::string("\x7f") + "ELF" + std::string(100, '\0')}) {
    std::ofstream(path, std::ios::binary) << text;
    const auto file = inspect_elf(path);
    ASSERT_TRUE(file);
    EXPECT_EQ(file->linkage, Linkage::kNotElf);
  }
  std::remove(path.c_str());
  EXPECT_EQ(inspect_elf("/no/such/program").error().code, Code::kNotFound);
}

// The test's own program with one symbol name written over: its string table then asks for it.
TEST(ElfFile, SeesTheNameAmongTheSymbols) {
  std::string bytes = *read_text_file(*own_executable_path(), uint64_t{1} << 30);
  const size_t at = bytes.find(std::string("\0__libc_start_main\0", 19));
  ASSERT_NE(at, std::string::npos);
  bytes.replace(at, 19, std::string("\0llama_decode\0______", 19));
  const std::string path = testing::TempDir() + "elf_file_test";
  std::ofstream(path, std::ios::binary) << bytes;
  EXPECT_TRUE(inspect_elf(path)->names_llama);
  // Longer names that hold it are others.
  bytes.replace(at, 19, std::string("\0llama_decode_x\0____", 19));
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  EXPECT_FALSE(inspect_elf(path)->names_llama);
  std::remove(path.c_str());
}

TEST(ListedLibraries, AreTheAbsolutePaths) {
  EXPECT_EQ(listed_libraries("\tlinux-vdso.so.1 (0x00007ffd)\n"
                             "\tlibllama.so => /opt/a b/libllama.so (0x00007f00)\n"
                             "\tlibmissing.so => not found\n"
                             "\t/lib64/ld-linux-x86-64.so.2 (0x00007f11)\n"),
            (std::vector<std::string>{"/opt/a b/libllama.so", "/lib64/ld-linux-x86-64.so.2"}));
  EXPECT_TRUE(listed_libraries("statically linked").empty());
  EXPECT_TRUE(listed_libraries("").empty());
}

}  // namespace
}  // namespace rhizome
