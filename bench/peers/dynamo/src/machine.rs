//! Time and memory of this process.

use std::time::Instant;

/// Runs `action` and adds what it took to `ns`.
pub fn timed<T>(ns: &mut f64, action: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = action();
    *ns += start.elapsed().as_nanos() as f64;
    result
}

pub fn thread_cpu_ns() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists on Linux, and `time` is ours.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

pub fn resident_bytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<f64>().ok()).unwrap_or(f64::NAN) * 1024.0
}

/// Has the heap's pages there before they are used, so that page faults are not timed, and keeps them.
pub fn prefault_heap(mebibytes: usize) {
    const MEBIBYTE: usize = 1 << 20;
    // SAFETY: plain allocations, written and freed; the options only say where they come from.
    unsafe {
        libc::mallopt(libc::M_MMAP_MAX, 0);
        libc::mallopt(libc::M_TRIM_THRESHOLD, i32::MAX);
        libc::mallopt(libc::M_ARENA_MAX, 1);
        let blocks: Vec<_> = (0..mebibytes).map(|_| libc::malloc(MEBIBYTE)).filter(|block| !block.is_null()).collect();
        for block in &blocks {
            libc::memset(*block, 1, MEBIBYTE);
        }
        for block in blocks {
            libc::free(block);
        }
    }
}
