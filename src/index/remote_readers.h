// Readers of an index in other processes, as the owner of the index sees them.
//
// Such a reader takes no pin in the index, whose memory it cannot write. It says in a word of its own (a hazard slot;
// Michael 2004) which run it uses, which protects the run and, since a child pins its parent, all runs above it:
//
//   reader                                       evictor
//   walk, noting each run and its ver            mark runs dead, or shorter; unlink them
//   slot = deepest run                           fence
//   fence                                        look at all slots
//   look again: ver of every run of the path,    what is in no slot gives its blocks away; what is in one waits,
//   deepest one not dead, long enough            and so do its ancestors, which it still pins
//
// Of the two fences one comes first. If the reader's does, the evictor sees the slot; if the evictor's does, the reader
// sees what was marked, gives the slot back and walks again.
//
// Thread-safety: the index calls one at a time, with the evictor's mutex held; implementations call nobody back.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "index/run.h"

namespace rhizome {

class RemoteReaders {
 public:
  virtual ~RemoteReaders() = default;

  // Appends the runs in all slots. They may be anything: readers are not trusted. Every load is at least acquire.
  virtual void collect(std::vector<RunId>& in_use) = 0;
  // Hands out what was looked up since the last call, as far as it is known, with the tick (coarse_now_ticks()) of the
  // use. They may be anything, too.
  virtual void take_touches(const std::function<void(RunId, uint32_t tick)>& touched) = 0;
};

}  // namespace rhizome
