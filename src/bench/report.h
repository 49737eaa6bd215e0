// What a run found: a table for people, one line of JSON for programs.
//
// Thread-safety: one thread at a time; failure() and answered() from any.
#pragma once

#include <map>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "block/sha256.h"
#include "concurrency/mutex.h"

namespace rhizome::bench {

struct MachineFacts {
  std::string cpu;
  uint32_t cpus = 0;
  uint64_t memory_bytes = 0;
  std::string system;  // kernel and its release
};
MachineFacts machine_facts();

class Report {
 public:
  // Table lines go to `table` as they come; null: only JSON is wanted. `judged`: the bounds apply to this run.
  Report(std::ostream* table, bool colored, bool judged) : table_(table), colored_(colored), judged_(judged) {}

  // A block of the table: what was done, how, and what its two columns are.
  void section(std::string_view title, std::string_view how, std::string_view left = "stock",
               std::string_view right = "rhizome");
  void row(std::string_view what, std::string_view stock, std::string_view ours);
  void note(std::string_view line);

  // `name` as the bounds know it; a figure that is set twice keeps the last value.
  void figure(const std::string& name, double value);
  std::optional<double> figure_value(const std::string& name) const;

  // Something that makes the run a failed one: an answer that differs, counts that disagree.
  void failure(std::string_view what);
  bool failed() const;

  // Everything that was answered goes into the checksum; in which order does not matter.
  void answered(std::string_view text);

  // All figures, with their bounds and whether they hold.
  void print_figures();
  // {"bench":"agents","figures":{...},"checksum":"...","machine":{...}}.
  std::string json(std::string_view bench, const MachineFacts& machine) const;

 private:
  std::string checksum() const;

  std::ostream* table_;
  const bool colored_;
  const bool judged_;
  std::vector<std::string> order_;
  std::map<std::string, double> figures_;
  mutable Mutex mutex_;
  uint32_t failures_ GUARDED_BY(mutex_) = 0;
  std::multiset<Digest> answered_ GUARDED_BY(mutex_);
};

}  // namespace rhizome::bench
