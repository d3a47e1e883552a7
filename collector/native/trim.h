// Freed memory goes back to the system: an ended window must not cost more memory than it does with torch.profiler.
#pragma once

#include <cstdlib> // defines __GLIBC__ where it is one

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace profsuite {

inline void trim() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

// Trims again and again while it lives.
//
// Kineto frees what it recorded while it makes its result of it.  On the training thread the result would take the
// place of what was freed; on another thread glibc gives it an arena of its own, and both would count.
class Trimmer {
 public:
  Trimmer() : thread_([this] { work(); }) {}

  ~Trimmer() {
    {
      std::lock_guard<std::mutex> guard(lock_);
      over_ = true;
    }
    ended_.notify_one();
    thread_.join();
    trim();
  }

 private:
  static constexpr std::chrono::milliseconds kInterval{50};

  void work() {
    std::unique_lock<std::mutex> guard(lock_);
    while (!ended_.wait_for(guard, kInterval, [this] { return over_; })) {
      trim();
    }
  }

  std::mutex lock_;
  std::condition_variable ended_;
  bool over_ = false;
  std::thread thread_;
};

} // namespace profsuite
