// Named race points: places where a test can hold a thread while another one passes it.
// In release builds RHIZOME_RACE_POINT is nothing; builds with RHIZOME_RACE_POINTS=1 stop there
// when a RaceHold of that name exists.
#pragma once

#if defined(RHIZOME_RACE_POINTS) && RHIZOME_RACE_POINTS

#include <memory>

namespace rhizome {

// Holds the first thread that reaches the point; all others, and those after it, pass.
// The hold ends with let_go() or destruction.
//
// Thread-safety: may be used from any thread; several holds may exist, of one name or of many.
class RaceHold {
 public:
  // `name` must outlive the object.
  explicit RaceHold(const char* name);
  ~RaceHold();
  RaceHold(const RaceHold&) = delete;
  RaceHold& operator=(const RaceHold&) = delete;

  // Waits until a thread stands at the point.
  void wait_reached();
  bool reached() const;
  // Returns when the held thread has left the point.
  void let_go();

  struct State;

 private:
  std::unique_ptr<State> state_;
};

void race_point_reached(const char* name);

}  // namespace rhizome

#define RHIZOME_RACE_POINT(name) ::rhizome::race_point_reached(name)

#else

#define RHIZOME_RACE_POINT(name) static_cast<void>(0)

#endif
