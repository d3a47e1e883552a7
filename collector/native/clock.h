// The clock of the rings: the time stamp counter where it is fit for it, else CLOCK_MONOTONIC.
#pragma once

#include <cstdint>
#include <ctime>

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#include <x86intrin.h>
#define PROFSUITE_TSC 1
#elif defined(__aarch64__)
#define PROFSUITE_ARM_COUNTER 1
#endif

namespace profsuite {

inline int64_t clock_ns(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

// Whether the counter ticks at one rate whatever the core's frequency and sleep states are.
inline bool counter_is_invariant() {
#if defined(PROFSUITE_TSC)
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(0x80000000U, &a, &b, &c, &d) == 0 || a < 0x80000007U) {
    return false;
  }
  __get_cpuid(0x80000007U, &a, &b, &c, &d);
  return (d & (1U << 8)) != 0;
#elif defined(PROFSUITE_ARM_COUNTER)
  return true; // by the architecture
#else
  return false;
#endif
}

inline uint64_t counter() {
#if defined(PROFSUITE_TSC)
  return __rdtsc();
#elif defined(PROFSUITE_ARM_COUNTER)
  uint64_t value;
  __asm__ __volatile__("mrs %0, cntvct_el0" : "=r"(value));
  return value;
#else
  return static_cast<uint64_t>(clock_ns(CLOCK_MONOTONIC));
#endif
}

inline uint64_t ticks(bool use_counter) {
  return use_counter ? counter() : static_cast<uint64_t>(clock_ns(CLOCK_MONOTONIC));
}

// One instant on three clocks.
struct Instant {
  uint64_t ticks = 0;
  int64_t epoch_ns = 0;
  int64_t monotonic_ns = 0;
};

// The reading least disturbed of several: the one whose two ticks lie closest.
inline Instant read_clocks(bool use_counter) {
  Instant best;
  uint64_t gap = UINT64_MAX;
  for (int i = 0; i < 32; ++i) {
    const uint64_t before = ticks(use_counter);
    const int64_t epoch = clock_ns(CLOCK_REALTIME);
    const int64_t monotonic = clock_ns(CLOCK_MONOTONIC);
    const uint64_t after = ticks(use_counter);
    if (after - before < gap) {
      gap = after - before;
      best = {before + gap / 2, epoch, monotonic};
    }
  }
  return best;
}

// Ticks to ns since the epoch.  The rate comes from CLOCK_MONOTONIC, which is never stepped, and the
// origin from CLOCK_REALTIME at the start: a step of the wall clock cannot bend the time line.
class Epoch {
 public:
  Epoch(const Instant& start, const Instant& now)
      : start_(start),
        rate_(
            now.ticks > start.ticks
                ? static_cast<double>(now.monotonic_ns - start.monotonic_ns) / static_cast<double>(now.ticks - start.ticks)
                : 1.0),
        step_ns_((now.epoch_ns - start.epoch_ns) - (now.monotonic_ns - start.monotonic_ns)) {}

  int64_t ns(uint64_t at) const {
    const double since = static_cast<double>(static_cast<int64_t>(at - start_.ticks));
    return start_.epoch_ns + static_cast<int64_t>(since * rate_);
  }

  // How far the wall clock moved away from the time line since the start.
  int64_t step_ns() const {
    return step_ns_;
  }

 private:
  Instant start_;
  double rate_;
  int64_t step_ns_;
};

} // namespace profsuite
