// A folder of one run, gone at the end.
//
// Thread-safety: one thread at a time.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace rhizome::bench {

class RunFolder {
 public:
  RunFolder() {
    std::error_code error;
    const std::filesystem::path temporary = std::filesystem::temp_directory_path(error);
    path_ = (error ? std::filesystem::path(".") : temporary) / "rhizome_bench_XXXXXX";
    std::string name = path_.string();
    is_there_ = ::mkdtemp(name.data()) != nullptr;
    path_ = name;
  }
  ~RunFolder() {
    std::error_code ignored;
    if (is_there_) std::filesystem::remove_all(path_, ignored);
  }
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  bool is_there() const { return is_there_; }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
  bool is_there_ = false;
};

}  // namespace rhizome::bench
