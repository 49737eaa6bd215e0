// The library's own state, which is costly to make.
//
// Thread-safety: belongs to the workspace.
#pragma once

#include <zstd.h>

#include "contract/check.h"

namespace rhizome {

struct ZstdContexts {
  ZSTD_CCtx* const compress = ZSTD_createCCtx();
  ZSTD_DCtx* const decompress = ZSTD_createDCtx();

  ZstdContexts() { RHIZOME_CHECK(compress != nullptr && decompress != nullptr); }
  ~ZstdContexts() {
    ZSTD_freeCCtx(compress);
    ZSTD_freeDCtx(decompress);
  }
  ZstdContexts(const ZstdContexts&) = delete;
  ZstdContexts& operator=(const ZstdContexts&) = delete;
};

}  // namespace rhizome
