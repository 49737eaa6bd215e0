// `rhizome doctor`: what this machine offers, tried out, and what falls back to what where it does not.
//
// Thread-safety: one call at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rhizome {

// The exit status: 0 said, 2 the call was wrong.
int doctor_main(const std::vector<std::string>& arguments);

enum class Offer : uint8_t { kYes, kLess, kNo };

// One thing that was tried.
struct Check {
  std::string_view name;
  Offer offer = Offer::kNo;
  std::string found;              // in words
  std::string_view without = {};  // what happens where it is less, or not there
};

std::vector<Check> check_machine();
std::string doctor_text(const std::vector<Check>& checks);
std::string doctor_json(const std::vector<Check>& checks);

}  // namespace rhizome
