// Whether a program will see the preloaded library: it must be dynamically linked, and it or a library
// that it needs must ask for llama_decode by name.
//
// Thread-safety: reads files; keeps nothing.
#pragma once

#include <string>
#include <vector>

#include "contract/result.h"

namespace rhizome {

enum class Linkage {
  kNotElf,  // a script, or something else that the kernel may know how to start
  kStatic,
  kDynamic,
};

struct ElfFile {
  Linkage linkage = Linkage::kNotElf;
  std::string interpreter;   // the dynamic linker that it names; empty for a library
  bool names_llama = false;  // "llama_decode" stands among its dynamic symbols' names
};

// kNotFound, kPermissionDenied. What is damaged counts as kNotElf: starting it will say so.
Result<ElfFile> inspect_elf(const std::string& path);

// The paths in what a dynamic linker prints for --list.
std::vector<std::string> listed_libraries(const std::string& text);

}  // namespace rhizome
