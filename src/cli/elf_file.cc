#include "cli/elf_file.h"

#include <cstring>
#include <optional>
#include <span>
#include <string_view>

#include <elf.h>

#include "machine/files.h"

namespace rhizome {
namespace {

constexpr uint64_t kHeadersMost = uint64_t{1} << 20;
constexpr uint64_t kNamesMost = uint64_t{256} << 20;
// A name in a string table stands between two zero bytes.
constexpr std::string_view kWanted("\0llama_decode\0", 14);

template <class Record>
std::optional<std::vector<Record>> read_records(const std::string& path, uint64_t offset, uint64_t count) {
  if (count > kHeadersMost / sizeof(Record)) return std::nullopt;
  const auto bytes = read_file_range(path, offset, count * sizeof(Record));
  if (!bytes || bytes->size() != count * sizeof(Record)) return std::nullopt;
  std::vector<Record> records(count);
  std::memcpy(records.data(), bytes->data(), bytes->size());
  return records;
}

std::optional<uint64_t> file_offset(const std::vector<Elf64_Phdr>& segments, uint64_t address) {
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type != PT_LOAD || address < segment.p_vaddr) continue;
    if (address - segment.p_vaddr < segment.p_filesz) return address - segment.p_vaddr + segment.p_offset;
  }
  return std::nullopt;
}

bool names_llama(const std::string& path, const std::vector<Elf64_Phdr>& segments, const Elf64_Phdr& dynamic) {
  const auto entries = read_records<Elf64_Dyn>(path, dynamic.p_offset, dynamic.p_filesz / sizeof(Elf64_Dyn));
  if (!entries) return false;
  uint64_t address = 0;
  uint64_t length = 0;
  for (const Elf64_Dyn& entry : *entries) {
    if (entry.d_tag == DT_STRTAB) address = entry.d_un.d_ptr;
    if (entry.d_tag == DT_STRSZ) length = entry.d_un.d_val;
  }
  const auto offset = file_offset(segments, address);
  if (!offset || length > kNamesMost) return false;
  const auto names = read_file_range(path, *offset, length);
  if (!names) return false;
  const std::string_view text(reinterpret_cast<const char*>(names->data()), names->size());
  return text.find(kWanted) != std::string_view::npos;
}

}  // namespace

Result<ElfFile> inspect_elf(const std::string& path) {
  const auto start = read_file_range(path, 0, sizeof(Elf64_Ehdr));
  if (!start) return fail(start.error());
  ElfFile file;
  Elf64_Ehdr header;
  if (start->size() != sizeof header) return file;
  std::memcpy(&header, start->data(), sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_phentsize != sizeof(Elf64_Phdr)) {
    return file;
  }
  const auto segments = read_records<Elf64_Phdr>(path, header.e_phoff, header.e_phnum);
  if (!segments) return file;
  file.linkage = Linkage::kStatic;
  for (const Elf64_Phdr& segment : *segments) {
    if (segment.p_type == PT_INTERP) {
      const auto name = read_file_range(path, segment.p_offset, std::min<uint64_t>(segment.p_filesz, 4096));
      if (!name || name->empty()) continue;
      file.interpreter.assign(reinterpret_cast<const char*>(name->data()), name->size() - 1);
      file.linkage = Linkage::kDynamic;
    }
    // A static program may be position independent: it has a dynamic section and no interpreter.
    if (segment.p_type == PT_DYNAMIC) file.names_llama = names_llama(path, *segments, segment);
  }
  return file;
}

std::vector<std::string> listed_libraries(const std::string& text) {
  std::vector<std::string> paths;
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = std::string_view(text).substr(at, end - at);
    at = end + 1;
    if (const size_t arrow = line.find(" => "); arrow != std::string_view::npos) line.remove_prefix(arrow + 4);
    const size_t first = line.find_first_not_of(" \t");
    if (first == std::string_view::npos || line[first] != '/') continue;
    line.remove_prefix(first);
    paths.emplace_back(line.substr(0, line.rfind(" (")));
  }
  return paths;
}

}  // namespace rhizome
