// Two measurements, one after the other or both together.
//
// Thread-safety: what is measured together must not share what is not safe to share.
#pragma once

#include <functional>

#include "bench/server_process.h"
#include "contract/result.h"

namespace rhizome::bench {

// `first` in a thread of its own when both run together.
void run_two(bool together, const std::function<void()>& first, const std::function<void()>& second);

template <class T>
struct Sides {
  T stock;
  T ours;
};

// The first error of the two. Together, times say little, but counts are the same.
template <class T>
Result<Sides<T>> measure_sides(bool together, const std::function<Result<T>(Side)>& measure) {
  Result<T> stock;
  Result<T> ours;
  run_two(
      together, [&] { stock = measure(Side::kStock); },
      [&] {
        if (together || stock) ours = measure(Side::kRhizome);
      });
  if (!stock) return fail(stock.error());
  if (!ours) return fail(ours.error());
  return Sides<T>{std::move(*stock), std::move(*ours)};
}

}  // namespace rhizome::bench
