// CPU time that Rhizome itself takes: the calling thread's, less what the engine's forward pass took of it.
#pragma once

#include "engine/llama/engine_context.h"
#include "machine/clock.h"

namespace rhizome {

class HookTime {
 public:
  HookTime(EngineContext& engine, Counter counter)
      : engine_(engine), counter_(counter), begin_ns_(thread_cpu_now_ns()), engine_begin_ns_(engine.engine_cpu_ns()) {}
  ~HookTime() {
    const uint64_t all_ns = thread_cpu_now_ns() - begin_ns_;
    const uint64_t engine_ns = engine_.engine_cpu_ns() - engine_begin_ns_;
    engine_.counters.add(counter_, all_ns > engine_ns ? all_ns - engine_ns : 0);
  }
  HookTime(const HookTime&) = delete;
  HookTime& operator=(const HookTime&) = delete;

  // What the time was spent on may only be known later.
  void count_as(Counter counter) { counter_ = counter; }

 private:
  EngineContext& engine_;
  Counter counter_;
  uint64_t begin_ns_;
  uint64_t engine_begin_ns_;
};

}  // namespace rhizome
