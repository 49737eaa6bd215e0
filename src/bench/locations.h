// Where the bench finds what it measures: programs beside this one, models that tools/setup fetched or made.
//
// Thread-safety: pure functions of the environment and the disk.
#pragma once

#include <string>

#include "contract/result.h"

namespace rhizome::bench {

struct Locations {
  std::string program;       // `rhizome` itself
  std::string stock_server;  // llama-server without any of Rhizome
  std::string full_model;    // what the bounds are stated for
  std::string quick_model;   // the same tokenizer and template, two layers
  std::string window_model;  // sliding-window attention, random weights
};

// `model` replaces the full model when it is not empty. kNotFound when something is missing; `missing` says what
// and where it was looked for.
Result<Locations> find_locations(const std::string& program, const std::string& model, std::string& missing);

// The folder that tools/setup fills: RHIZOME_SETUP_CACHE, else rhizome-setup in the user's cache folder.
std::string setup_cache();

}  // namespace rhizome::bench
