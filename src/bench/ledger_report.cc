#include "bench/ledger_report.h"

#include <string>

namespace rhizome::bench {

void report_ledger(Report& report, std::string_view where, std::string_view contestant, const Ledger& ledger,
                   bool is_repeatable) {
  const auto add = [&report](const std::string& figure, uint64_t count) {
    report.figure(figure, report.figure_value(figure).value_or(0) + static_cast<double>(count));
  };
  add("identity_checked_blocks", ledger.blocks_checked());
  add("wrong_matches", ledger.wrong());
  const std::string named = std::string(where) + ", " + std::string(contestant);
  if (ledger.wrong() > 0) report.failure(named + ": " + std::to_string(ledger.wrong()) + " wrong answers");
  if (is_repeatable) report.answered(named + ": " + std::to_string(ledger.found_sum()));
}

}  // namespace rhizome::bench
