// A thread's ring: its thread alone writes, the drain reads; the thread drains it itself where it is full.
#pragma once

#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "inputs.h"
#include "names.h"

namespace profsuite {

// Records are words.  The low two bits of the first word are the kind, the rest is the time in ticks.
//   START       time | key and thread of the forward op | sequence number | session, name, inputs
//   END         time | key
//   FAR_END     time | key and thread of the start      (ended on another thread than it began on)
//   COLLECTIVE  time | index into the session's collectives; belongs to the START before it
// The key tells spans apart that are open at once: the address of the RecordFunction, or a counter
// with the highest bit set for annotations.
enum class Record : uint64_t { START, END, FAR_END, COLLECTIVE };

constexpr uint64_t KIND_BITS = 2;
constexpr uint64_t KEY_SHIFT = 20; // 44 bits of key above 20 bits of thread
constexpr uint64_t KEY_MASK = (1ULL << 44) - 1;
constexpr uint64_t ANNOTATION = 1ULL << 43; // user addresses have 47 bits, and 4 of them are zero
constexpr uint64_t ASYNC = 1ULL << 19;
constexpr uint64_t THREAD_MASK = ASYNC - 1;
constexpr size_t START_WORDS = 4;
constexpr size_t END_WORDS = 2;

struct Session;

// A name found by the address of its text, in one cache line: most ops touch no other.
struct alignas(64) NameSlot {
  char text[56] = {}; // longer names are found by their hash alone
  uint32_t id = 0;
  uint8_t scope = 0;
  bool used = false;
  bool collective = false;
};

struct alignas(64) ThreadState {
  // ---- written by the thread; the first line is all that most records need
  std::atomic<uint64_t> head{0};
  uint64_t seen_tail = 0;
  uint64_t* words = nullptr;
  uint64_t mask = 0;
  Session* of = nullptr; // what session points to
  uint32_t open = 0; // starts written whose ends were not: room for these ends is kept free
  uint32_t rf_thread = 0; // RecordFunction's number of this thread
  uint8_t number = 0; // the next three are of the session
  bool use_counter = false;
  bool shapes = false;
  bool packing = false;

  alignas(64) std::array<NameSlot, 512> name_slots; // by the address of the text
  NameSlot long_name; // the last that fits no slot
  std::array<const Name*, 1024> name_cache{}; // by hash
  std::array<const Signature*, 1024> signature_cache{};
  Packer packer;
  std::shared_ptr<Session> session;
  uint64_t next_annotation = 0;
  std::atomic<uint64_t> overruns{0};
  std::atomic<uint64_t> shapeless{0};
  // ---- written by the drain, under the recorder's mutex
  alignas(64) std::atomic<uint64_t> tail{0};
  std::atomic<uint64_t> closed_afar{0};
  // ---- written once
  uint32_t index = 0;
  long tid = 0;
  std::string label;
  std::atomic<bool> ended{false};

  ThreadState() = default;
  ThreadState(const ThreadState&) = delete;
  ThreadState& operator=(const ThreadState&) = delete;

  ~ThreadState() {
    release();
  }

  bool allocate(size_t bytes) {
    if (words != nullptr && this->bytes() == bytes) {
      populate();
      return true;
    }
    release();
    void* place = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (place == MAP_FAILED) {
      return false;
    }
    words = static_cast<uint64_t*>(place);
    mask = bytes / sizeof(uint64_t) - 1;
    populate();
    return true;
  }

  size_t bytes() const {
    return words == nullptr ? 0 : (mask + 1) * sizeof(uint64_t);
  }

  // The pages go back to the system; whatever a late callback still writes there is never read.
  void forget() const {
    if (words != nullptr) {
      madvise(words, bytes(), MADV_DONTNEED);
    }
  }

  bool has_room(uint64_t count) {
    const uint64_t at = head.load(std::memory_order_relaxed);
    if (at + count - seen_tail <= mask + 1) {
      return true;
    }
    seen_tail = tail.load(std::memory_order_acquire);
    return at + count - seen_tail <= mask + 1;
  }

  // Room for a start, its end, and all ends that are still to come.
  bool may_start(uint64_t more) {
    if (has_room(START_WORDS + more + END_WORDS * (uint64_t{open} + 1))) {
      return true;
    }
    const uint64_t afar = closed_afar.load(std::memory_order_relaxed);
    const uint64_t ends = 1 + (open > afar ? open - afar : 0);
    return afar > 0 && has_room(START_WORDS + more + END_WORDS * ends);
  }

  void put(uint64_t at, uint64_t word) {
    words[at & mask] = word;
  }

  // True once a quarter of the ring: time to wake the drain.
  bool publish(uint64_t at, uint64_t count) {
    head.store(at + count, std::memory_order_release);
    return ((at + count) & (mask >> 2)) < count;
  }

 private:
  // All pages at once: they are all used soon, and a fault at a time costs ten times as much.
  void populate() const {
#ifdef MADV_POPULATE_WRITE
    madvise(words, bytes(), MADV_POPULATE_WRITE); // Linux 5.14; elsewhere the faults come one by one
#endif
  }

  void release() {
    if (words != nullptr) {
      munmap(words, bytes());
      words = nullptr;
    }
  }
};

} // namespace profsuite
