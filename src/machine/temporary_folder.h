// A folder for one test, gone with everything in it when the test ends.
//
// Thread-safety: belongs to one thread at a time. Aborts where no folder can be made.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "contract/check.h"

namespace rhizome {

class TemporaryFolder {
 public:
  TemporaryFolder() : path_((std::filesystem::temp_directory_path() / "rhizome_test_XXXXXX").string()) {
    RHIZOME_CHECK(::mkdtemp(path_.data()) != nullptr);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string path(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace rhizome
