// Clang's thread-safety attributes under short names; they expand to nothing elsewhere.
// Reference: https://clang.llvm.org/docs/ThreadSafetyAnalysis.html
#pragma once

#if defined(__clang__)
#define RHIZOME_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define RHIZOME_THREAD_ANNOTATION(x)
#endif

#define CAPABILITY(name) RHIZOME_THREAD_ANNOTATION(capability(name))
#define SCOPED_CAPABILITY RHIZOME_THREAD_ANNOTATION(scoped_lockable)
#define GUARDED_BY(mutex) RHIZOME_THREAD_ANNOTATION(guarded_by(mutex))
#define PT_GUARDED_BY(mutex) RHIZOME_THREAD_ANNOTATION(pt_guarded_by(mutex))
#define REQUIRES(...) RHIZOME_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define EXCLUDES(...) RHIZOME_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
#define ACQUIRE(...) RHIZOME_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define ACQUIRE_SHARED(...) RHIZOME_THREAD_ANNOTATION(acquire_shared_capability(__VA_ARGS__))
#define RELEASE_SHARED(...) RHIZOME_THREAD_ANNOTATION(release_shared_capability(__VA_ARGS__))
#define RELEASE(...) RHIZOME_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
#define TRY_ACQUIRE(...) RHIZOME_THREAD_ANNOTATION(try_acquire_capability(__VA_ARGS__))
#define RETURN_CAPABILITY(x) RHIZOME_THREAD_ANNOTATION(lock_returned(x))
#define NO_THREAD_SAFETY_ANALYSIS RHIZOME_THREAD_ANNOTATION(no_thread_safety_analysis)
