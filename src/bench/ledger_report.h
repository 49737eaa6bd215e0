// What ledgers found, in the report: a wrong block fails the run, whoever named it.
//
// Thread-safety: one thread at a time.
#pragma once

#include <string_view>

#include "bench/ledger.h"
#include "bench/report.h"

namespace rhizome::bench {

// Adds to `identity_checked_blocks` and `wrong_matches`. `is_repeatable`: what was found is the same in every run, and
// goes into the checksum.
void report_ledger(Report& report, std::string_view where, std::string_view contestant, const Ledger& ledger,
                   bool is_repeatable = true);

}  // namespace rhizome::bench
