"""Measures one of SGLang's prefix trees on a trace, in one thread, and prints one line of JSON. See ../README.md for
what is measured.

Usage: replay.py TRACE.jsonl.zst rust|python 16|512 PASSES, in an environment made from requirements.txt
"""
import array
import contextlib
import ctypes
import gc
import json
import pathlib
import statistics
import sys
import time

import numpy
import torch
import zstandard

import trees

TRACE_BLOCK_TOKENS = 512
# More than either takes at 16-token blocks.
HEAP_MEBIBYTES = 1500
LIBC = ctypes.CDLL(None)
# Of glibc's mallopt().
M_TRIM_THRESHOLD, M_MMAP_MAX, M_ARENA_MAX = -1, -4, -8


def mix(words):
    """As src/bench/prehashed_work.cc mixes: unsigned words of 64 bits, which wrap."""
    words = words ^ (words >> numpy.uint64(31))
    words = words * numpy.uint64(0x7FB5D329728EA185)
    words = words ^ (words >> numpy.uint64(27))
    words = words * numpy.uint64(0x81DADEF4BC2DD44D)
    return words ^ (words >> numpy.uint64(33))


class Request:
    """Its blocks' hashes of content as bytes, and how many of them, at the beginning, earlier requests have stored."""

    def __init__(self, ids, parts, known):
        blocks = numpy.asarray(ids, dtype=numpy.uint64)[:, None] << numpy.uint64(8)
        numbers = blocks + numpy.arange(parts, dtype=numpy.uint64)[None, :] + numpy.uint64(1 << 50)
        self.hashes = mix(numbers).tobytes()
        self.blocks = len(ids) * parts
        self.known = known

    def keys(self):
        """What the tree takes as a sequence of tokens; it may keep it, so each pass needs its own."""
        keys = array.array('q')
        keys.frombytes(self.hashes)
        return keys


class Work:
    def __init__(self, path, block_tokens):
        parts = TRACE_BLOCK_TOKENS // block_tokens
        sequences = hash_ids_of(path)
        self.requests = [
            Request(ids, parts, int(known) * parts) for ids, known in zip(sequences, known_of(sequences))]
        self.looked_up = sum(request.blocks for request in self.requests)
        self.stored = sum(request.blocks - request.known for request in self.requests)


def hash_ids_of(path):
    with zstandard.open(path, 'rt', encoding='utf-8') as lines:
        return [json.loads(line)['hash_ids'] for line in lines if line.strip()]


def known_of(sequences):
    """For each: how many of its ids, at the beginning, one before it has at its beginning."""
    known, stored = numpy.zeros(len(sequences), dtype=numpy.int64), {}
    for number, ids in enumerate(sequences):
        node = stored
        for block in ids:
            known[number] += block in node
            node = node.setdefault(block, {})
    return known


class Pass:
    """One run over a new tree. Nothing is evicted before all requests are through."""

    def __init__(self, work, new_tree):
        gc.collect()
        LIBC.malloc_trim(0)
        self.lookup_ns = self.store_ns = self.wrong = 0
        before = resident_bytes()
        self.tree, self.first_slot = new_tree(), 0
        for request in work.requests:
            self.serve(request)
        self.bytes = resident_bytes() - before
        self.tree.evict_all()
        self.wrong += sum(self.tree.look_up(request.keys())[0] != 0 for request in work.requests)
        del self.tree

    def serve(self, request):
        keys = request.keys()
        slots = torch.arange(self.first_slot, self.first_slot + request.blocks, dtype=torch.int64)
        self.first_slot += request.blocks
        start = time.perf_counter_ns()
        matched, reference = self.tree.look_up(keys)
        looked_up = time.perf_counter_ns()
        if request.known < request.blocks:
            self.tree.insert(keys, slots)
        self.tree.release(reference)
        self.store_ns += time.perf_counter_ns() - looked_up
        self.lookup_ns += looked_up - start
        self.wrong += matched != request.known


def resident_bytes():
    status = pathlib.Path('/proc/self/status').read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith('VmRSS:')) * 1024


def prefault_heap():
    """Has the heap's pages there before they are used, so that page faults are not timed, and keeps them."""
    LIBC.malloc.restype, LIBC.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    LIBC.free.argtypes = [ctypes.c_void_p]
    for option, value in ((M_MMAP_MAX, 0), (M_TRIM_THRESHOLD, 2**31 - 1), (M_ARENA_MAX, 1)):
        LIBC.mallopt(option, value)
    blocks = [LIBC.malloc(1 << 20) for _ in range(HEAP_MEBIBYTES)]
    for block in filter(None, blocks):
        ctypes.memset(block, 1, 1 << 20)
    for block in blocks:
        LIBC.free(block)


def measure(path, peer, block_tokens, passes):
    work, new_tree = Work(path, block_tokens), trees.load(peer)
    gc.collect()
    gc.disable()
    first = Pass(work, new_tree)  # for its memory, which has to come from the kernel then
    prefault_heap()
    timed = [Pass(work, new_tree) for _ in range(passes)]
    operations = work.looked_up + work.stored
    return {
        'peer': peer,
        'block_tokens': block_tokens,
        'requests': len(work.requests),
        'looked_up': work.looked_up,
        'stored': work.stored,
        'trace_m_block_operations_per_s': statistics.median(
            operations * 1e3 / (one.lookup_ns + one.store_ns) for one in timed),
        'lookup_ns': statistics.median(one.lookup_ns for one in timed) / work.looked_up,
        'store_ns': statistics.median(one.store_ns for one in timed) / work.stored,
        'bytes_per_block': first.bytes / work.stored,
        'wrong': first.wrong + sum(one.wrong for one in timed),
    }


def main():
    try:
        path, peer, block_tokens, passes = sys.argv[1:]
        block_tokens, passes = int(block_tokens), int(passes)
        if peer not in trees.NAMES or block_tokens not in (16, 512) or passes < 1:
            raise ValueError
    except ValueError:
        sys.exit('usage: replay.py TRACE.jsonl.zst rust|python 16|512 PASSES')
    torch.set_num_threads(1)
    # What the peer's package may say when it is imported is not the answer.
    with contextlib.redirect_stdout(sys.stderr):
        answer = measure(path, peer, block_tokens, passes)
    print(json.dumps(answer))


if __name__ == '__main__':
    main()
