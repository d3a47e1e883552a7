// What one start-to-stop recorded: rows drained from the rings, the spans still open, what was lost.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "clock.h"
#include "collective.h"
#include "ring.h"

namespace profsuite {

struct Row {
  uint64_t start;
  uint64_t end; // 0 while open
  int64_t sequence;
  uint32_t thread;
  uint32_t name;
  uint32_t inputs; // 0 for none
  uint32_t forward_thread; // with ASYNC
  uint32_t collective; // 1 + index, 0 for none
};

// Grows by blocks: no copies, and no more memory than twice what is in use.
class Rows {
 public:
  size_t size() const {
    return size_;
  }

  Row& operator[](size_t i) {
    return blocks_[i >> BITS][i & (BLOCK - 1)];
  }

  void push(const Row& row) {
    if (size_ >> BITS == blocks_.size()) {
      blocks_.emplace_back(new Row[BLOCK]);
    }
    ++size_;
    (*this)[size_ - 1] = row;
  }

 private:
  static constexpr size_t BITS = 14;
  static constexpr size_t BLOCK = size_t{1} << BITS;
  std::vector<std::unique_ptr<Row[]>> blocks_;
  size_t size_ = 0;
};

struct Open {
  uint64_t key;
  size_t row;
};

struct Thread {
  long tid = 0;
  std::string label;
};

struct FarEnd {
  uint64_t key;
  uint64_t time;
  uint64_t rf_thread; // RecordFunction's number of the thread that made the span
  int passes;
};

struct Session {
  uint8_t number = 0;
  bool shapes = false;
  std::atomic<bool> collectives{false};
  bool use_counter = false;
  size_t ring_bytes = 0;
  size_t max_rows = 0;
  Instant started;

  Names names;
  Signatures signatures;
  std::mutex collectives_mutex;
  std::vector<Collective> collective_rows;

  // Of the drain, under the recorder's mutex.
  Rows rows;
  std::unordered_map<uint32_t, std::vector<Open>> open; // by thread index
  std::unordered_map<uint64_t, uint32_t> thread_of; // RecordFunction's number -> thread index
  std::unordered_map<uint32_t, Thread> threads;
  std::vector<FarEnd> far_ends;
  uint64_t over_limit = 0;
  uint64_t overruns = 0; // of threads that ended
  uint64_t shapeless = 0;

  void drain(ThreadState& thread) {
    const uint64_t head = thread.head.load(std::memory_order_acquire);
    uint64_t at = thread.tail.load(std::memory_order_relaxed);
    if (at == head) {
      return;
    }
    std::vector<Open>& stack = open[thread.index];
    const auto word = [&](uint64_t i) { return thread.words[(at + i) & thread.mask]; };
    bool pushed = false;
    while (at != head) {
      const uint64_t time = word(0) >> KIND_BITS;
      const uint64_t key = word(1) >> KEY_SHIFT;
      switch (static_cast<Record>(word(0) & 3)) {
        case Record::START: {
          const uint64_t last = word(3);
          pushed = last >> 56 == number && rows.size() < max_rows;
          if (pushed) {
            stack.push_back({key, rows.size()});
            const auto forward = static_cast<uint32_t>(word(1) & (THREAD_MASK | ASYNC));
            rows.push({time, 0, static_cast<int64_t>(word(2)), thread.index, static_cast<uint32_t>(last >> 32 & 0xFFFFFF),
                       static_cast<uint32_t>(last), forward, 0});
          } else if (last >> 56 == number) {
            ++over_limit;
          }
          at += START_WORDS;
          continue;
        }
        case Record::END:
          close(stack, key, time); // without its start: begun before the session, or over the limit
          break;
        case Record::FAR_END:
          if (close(stack, key, time)) {
            thread.closed_afar.fetch_add(1, std::memory_order_relaxed);
            break;
          }
          far_ends.push_back({key, time, word(1) & THREAD_MASK, 0});
          break;
        case Record::COLLECTIVE:
          if (pushed) {
            rows[rows.size() - 1].collective = static_cast<uint32_t>(word(1)) + 1;
          }
          break;
      }
      at += END_WORDS;
    }
    thread.tail.store(at, std::memory_order_release);
    if (threads.find(thread.index) == threads.end()) {
      threads[thread.index] = {thread.tid, thread.label};
      thread_of[thread.rf_thread] = thread.index;
    }
  }

  bool close(std::vector<Open>& stack, uint64_t key, uint64_t time) {
    for (size_t i = stack.size(); i-- > 0;) {
      Row& row = rows[stack[i].row];
      // A span that began later at the same address is another one.
      if (stack[i].key == key && row.start <= time) {
        row.end = time;
        stack.erase(stack.begin() + static_cast<std::ptrdiff_t>(i));
        return true;
      }
    }
    return false;
  }

  // A far end may be drained before its start: it waits for some passes.  Most spans began on the thread that
  // made them; a work of c10d may be made, begin and end on three.
  template <class FindThread>
  void close_far(FindThread&& find_thread) {
    size_t kept = 0;
    for (FarEnd& end : far_ends) {
      const auto try_thread = [&](uint32_t index) {
        const auto stack = open.find(index);
        if (stack == open.end() || !close(stack->second, end.key, end.time)) {
          return false;
        }
        if (ThreadState* state = find_thread(index)) {
          state->closed_afar.fetch_add(1, std::memory_order_relaxed);
        }
        return true;
      };
      const auto maker = thread_of.find(end.rf_thread);
      bool done = maker != thread_of.end() && try_thread(maker->second);
      if (!done && ++end.passes == FAR_END_PASSES) {
        for (auto it = open.begin(); it != open.end() && !done; ++it) {
          done = try_thread(it->first);
        }
      }
      if (!done && end.passes < FAR_END_PASSES) {
        far_ends[kept++] = end;
      }
    }
    far_ends.resize(kept);
  }

  static constexpr int FAR_END_PASSES = 3;
};

} // namespace profsuite
