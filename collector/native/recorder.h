// The recorder of the process: the callbacks, the threads' rings, the thread that drains them.
#pragma once

#include <ATen/record_function.h>

#include <condition_variable>
#include <csignal>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#include "session.h"

namespace profsuite {

// Of an op that found no room: its end must not be recorded either.
struct Dropped : at::ObserverContext {};

// The session that runs: all that a callback looks at while nothing records.
inline std::atomic<Session*> current{nullptr};

struct Recorder {
  static constexpr size_t ALL_RINGS_BYTES = size_t{256} << 20;
  static constexpr size_t LEAST_RING_BYTES = size_t{1} << 16;

  std::mutex mutex; // everything below; callbacks take it once a thread and session
  std::condition_variable wake;
  std::shared_ptr<Session> session;
  std::vector<std::unique_ptr<ThreadState>> threads;
  std::thread* drainer = nullptr;
  bool quit = false;
  at::CallbackHandle callback = at::INVALID_CALLBACK_HANDLE;
  uint32_t next_index = 0;
  uint8_t next_number = 0;
};

// Never destroyed: threads may run ops while the process exits.
inline Recorder& recorder() {
  static auto* const instance = new Recorder;
  return *instance;
}

// Eight bytes of the static block, where a load is one instruction instead of a call.
__attribute__((tls_model("initial-exec"))) inline thread_local ThreadState* this_thread = nullptr;
inline thread_local bool thread_is_over = false;

struct ThreadEnd {
  bool used = false;
  ~ThreadEnd() {
    ThreadState* const state = this_thread;
    this_thread = nullptr;
    thread_is_over = true;
    if (state == nullptr) {
      return;
    }
    Recorder& r = recorder();
    const std::lock_guard<std::mutex> lock(r.mutex);
    state->ended = true; // while a session runs, the drain removes it once it is empty
    if (r.session == nullptr) {
      for (auto it = r.threads.begin(); it != r.threads.end(); ++it) {
        if (it->get() == state) {
          r.threads.erase(it);
          break;
        }
      }
    }
  }
};

inline thread_local ThreadEnd thread_end;

// This thread's ring for the session that runs, nullptr if none does or there is no memory for it.
__attribute__((noinline, cold)) inline ThreadState* adopt() {
  if (thread_is_over) {
    return nullptr;
  }
  Recorder& r = recorder();
  const std::lock_guard<std::mutex> lock(r.mutex);
  if (r.session == nullptr) {
    return nullptr;
  }
  ThreadState* state = this_thread;
  if (state == nullptr) {
    auto made = std::make_unique<ThreadState>();
    made->tid = syscall(SYS_gettid);
    char label[32] = {};
    pthread_getname_np(pthread_self(), label, sizeof(label));
    made->label = label;
    made->index = r.next_index++;
    made->rf_thread = static_cast<uint32_t>(at::RecordFunction::currentThreadId() & THREAD_MASK);
    state = made.get();
    r.threads.push_back(std::move(made));
    thread_end.used = true; // its destructor runs when the thread ends
    this_thread = state;
  }
  size_t used = 0;
  for (const auto& thread : r.threads) {
    used += thread.get() == state ? 0 : thread->bytes();
  }
  size_t bytes = r.session->ring_bytes;
  while (bytes > Recorder::LEAST_RING_BYTES && used + bytes > Recorder::ALL_RINGS_BYTES) {
    bytes /= 2;
  }
  if (!state->allocate(bytes)) {
    return nullptr;
  }
  state->session = r.session;
  state->of = r.session.get();
  state->number = r.session->number;
  state->use_counter = r.session->use_counter;
  state->shapes = r.session->shapes;
  state->open = 0;
  state->closed_afar = 0;
  state->overruns = 0;
  state->shapeless = 0;
  state->tail.store(state->head.load());
  state->seen_tail = state->head.load();
  state->name_cache.fill(nullptr);
  state->name_slots.fill(NameSlot{});
  state->signature_cache.fill(nullptr);
  return state;
}

inline ThreadState* state_of(const Session* session) {
  ThreadState* const state = this_thread;
  if (state != nullptr && state->of == session) {
    return state;
  }
  return adopt();
}

__attribute__((noinline)) inline const Name* look_up_name(
    ThreadState& state, const char* text, size_t size, uint8_t scope) {
  const uint64_t hash = hash_bytes(text, size, scope);
  const Name*& cached = state.name_cache[hash & (state.name_cache.size() - 1)];
  if (cached == nullptr || !cached->is(hash, text, size, scope)) {
    cached = state.session->names.intern(hash, text, size, scope);
  }
  return cached;
}

// Ops keep their names in one place, so the address finds the slot without a hash.  Other names lie on
// the stack or the heap, where one address has held many: the text decides.
inline const NameSlot& find_name(ThreadState& state, const char* text, uint8_t scope) {
  const auto address = reinterpret_cast<uintptr_t>(text);
  NameSlot& slot = state.name_slots[(address >> 3 ^ address >> 11) & (state.name_slots.size() - 1)];
  if (C10_LIKELY(slot.used && slot.scope == scope && std::strcmp(slot.text, text) == 0)) {
    return slot;
  }
  const size_t size = std::strlen(text);
  const Name* const name = look_up_name(state, text, size, scope);
  const bool fits = size < sizeof(slot.text);
  NameSlot& found = fits ? slot : state.long_name;
  found.id = name->id;
  found.scope = scope;
  found.collective = name->collective;
  if (fits) {
    std::memcpy(found.text, text, size + 1);
    found.used = true;
  }
  return found;
}

inline uint32_t find_inputs(ThreadState& state, const at::RecordFunction& function) {
  const auto inputs = function.inputs();
  if (inputs.empty() || state.packing) { // packing: sizes() of a subclass ran an op of its own
    return 0;
  }
  state.packing = true;
  bool packed = false;
  try {
    packed = state.packer.pack(inputs);
  } catch (...) {
    packed = false; // a tensor that has no sizes to tell
  }
  state.packing = false;
  if (!packed) {
    state.shapeless.fetch_add(1, std::memory_order_relaxed);
    return 0;
  }
  const uint64_t* const words = state.packer.words();
  const size_t count = state.packer.count();
  const uint64_t hash = hash_words(words, count);
  const Signature*& cached = state.signature_cache[hash & (state.signature_cache.size() - 1)];
  if (cached == nullptr || !cached->is(hash, words, count)) {
    const Signature* const found = state.session->signatures.intern(hash, words, count);
    if (found == nullptr) {
      state.shapeless.fetch_add(1, std::memory_order_relaxed);
      return 0;
    }
    cached = found;
  }
  return cached->id;
}

// Of a thread whose ring is full: the drain lags behind, so the thread empties its ring itself.  Nobody holds the
// mutex for longer than that takes.
__attribute__((noinline, cold)) inline bool drain_own(ThreadState& state) {
  Recorder& r = recorder();
  try {
    const std::lock_guard<std::mutex> lock(r.mutex);
    if (r.session == nullptr || r.session != state.session) {
      return false; // stopped: its rows are somebody else's
    }
    r.session->drain(state);
  } catch (...) {
    return false; // no memory for more rows
  }
  return true;
}

// Room for a start.  False: the spans open on this thread alone fill its ring.
inline bool make_room(ThreadState& state, uint64_t more) {
  return C10_LIKELY(state.may_start(more)) || (drain_own(state) && state.may_start(more));
}

inline void write_start(ThreadState& state, uint64_t key_word, int64_t sequence,
                        uint32_t name, uint32_t inputs, const uint32_t* collective) {
  uint64_t at = state.head.load(std::memory_order_relaxed);
  const uint64_t first = at;
  state.put(at + 1, key_word);
  state.put(at + 2, static_cast<uint64_t>(sequence));
  state.put(at + 3, uint64_t{state.number} << 56 | static_cast<uint64_t>(name) << 32 | inputs);
  ++state.open;
  // The clock is read last, so that as little of the recorder as can be lies within the op.
  const uint64_t time = ticks(state.use_counter) << KIND_BITS;
  state.put(at, time | static_cast<uint64_t>(Record::START));
  at += START_WORDS;
  if (collective != nullptr) {
    state.put(at, time | static_cast<uint64_t>(Record::COLLECTIVE));
    state.put(at + 1, *collective);
    at += END_WORDS;
  }
  if (state.publish(first, at - first)) {
    recorder().wake.notify_one();
  }
}

inline void write_end(ThreadState& state, uint64_t key, uint64_t rf_thread) {
  const uint64_t time = ticks(state.use_counter);
  const bool here = rf_thread == state.rf_thread;
  if (here && state.open > 0) {
    --state.open;
  } else if (!state.has_room(END_WORDS) && !(drain_own(state) && state.has_room(END_WORDS))) {
    state.overruns.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  const uint64_t at = state.head.load(std::memory_order_relaxed);
  state.put(at, time << KIND_BITS | static_cast<uint64_t>(here ? Record::END : Record::FAR_END));
  state.put(at + 1, key << KEY_SHIFT | rf_thread);
  if (state.publish(at, END_WORDS)) {
    recorder().wake.notify_one();
  }
}

inline uint64_t key_of(const at::RecordFunction& function) {
  return reinterpret_cast<uintptr_t>(&function) >> 4 & (ANNOTATION - 1);
}

// False where the session does not want them, or the op has no process group.
__attribute__((noinline, cold)) inline bool add_collective(
    Session& session, const at::RecordFunction& function, uint32_t& index) {
  Collective found;
  try {
    if (!session.collectives || !read_collective(function.inputs(), found)) {
      return false;
    }
  } catch (...) {
    return false; // a group whose state cannot be asked
  }
  const std::lock_guard<std::mutex> lock(session.collectives_mutex);
  index = static_cast<uint32_t>(session.collective_rows.size());
  session.collective_rows.push_back(std::move(found));
  return true;
}

__attribute__((noinline, cold)) inline std::unique_ptr<at::ObserverContext> drop(ThreadState* state) {
  if (state != nullptr) {
    state->overruns.fetch_add(1, std::memory_order_relaxed);
  }
  return std::make_unique<Dropped>();
}

inline std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& function) {
  Session* const session = current.load(std::memory_order_acquire);
  if (session == nullptr) {
    return nullptr;
  }
  ThreadState* const state = state_of(session);
  if (state == nullptr || state->of != session) {
    return drop(nullptr);
  }
  if (C10_UNLIKELY(!make_room(*state, END_WORDS))) {
    return drop(state);
  }
  const NameSlot& name = find_name(*state, function.name(), static_cast<uint8_t>(function.scope()));
  const uint32_t inputs = state->shapes ? find_inputs(*state, function) : 0;
  uint32_t collective = 0;
  const bool has_collective = C10_UNLIKELY(name.collective) && add_collective(*session, function, collective);
  // Only the spans of works (c10d) are asynchronous; isAsync() is a call into another library.
  const uint64_t async = function.scope() == at::RecordScope::USER_SCOPE && function.isAsync() ? ASYNC : 0;
  const uint64_t key_word = key_of(function) << KEY_SHIFT | (function.forwardThreadId() & THREAD_MASK) | async;
  write_start(*state, key_word, function.seqNr(), name.id, inputs, has_collective ? &collective : nullptr);
  return nullptr;
}

inline void on_end(const at::RecordFunction& function, at::ObserverContext* context) {
  Session* const session = current.load(std::memory_order_acquire);
  if (session == nullptr || context != nullptr) {
    return;
  }
  ThreadState* const state = state_of(session);
  if (state != nullptr && state->of == session) {
    write_end(*state, key_of(function), function.threadId() & THREAD_MASK);
  }
}

// Tokens of annotations: RecordFunction's thread number above the key's counter; 0 for none.
inline uint64_t push_annotation(const char* text, size_t size) {
  Session* const session = current.load(std::memory_order_acquire);
  if (session == nullptr) {
    return 0;
  }
  ThreadState* const state = state_of(session);
  if (state == nullptr || state->of != session) {
    return 0;
  }
  if (!make_room(*state, 0)) {
    state->overruns.fetch_add(1, std::memory_order_relaxed);
    return 0;
  }
  const auto scope = static_cast<uint8_t>(at::RecordScope::USER_SCOPE);
  const Name* const name = look_up_name(*state, text, size, scope);
  const uint64_t key = ANNOTATION | (++state->next_annotation & (ANNOTATION - 1));
  write_start(*state, key << KEY_SHIFT, -1, name->id, 0, nullptr);
  return uint64_t{state->rf_thread} << 44 | key;
}

inline void pop_annotation(uint64_t token) {
  Session* const session = current.load(std::memory_order_acquire);
  if (session == nullptr || token == 0) {
    return;
  }
  ThreadState* const state = state_of(session);
  if (state != nullptr && state->of == session) {
    write_end(*state, token & KEY_MASK, token >> 44);
  }
}

// Under the mutex.
inline void drain_all(Recorder& r) {
  Session& session = *r.session;
  for (auto& thread : r.threads) {
    if (thread->session == r.session) {
      session.drain(*thread);
    }
  }
  session.close_far([&](uint32_t index) -> ThreadState* {
    for (auto& thread : r.threads) {
      if (thread->index == index) {
        return thread.get();
      }
    }
    return nullptr;
  });
  size_t kept = 0;
  for (auto& thread : r.threads) {
    if (thread->ended && thread->head.load() == thread->tail.load()) {
      if (thread->session == r.session) {
        session.overruns += thread->overruns;
        session.shapeless += thread->shapeless;
      }
      thread.reset();
    } else if (thread->ended && thread->session != r.session) {
      thread.reset();
    } else {
      if (&r.threads[kept] != &thread) {
        r.threads[kept] = std::move(thread);
      }
      ++kept;
    }
  }
  r.threads.resize(kept);
}

inline void drain_loop() {
  Recorder& r = recorder();
  pthread_setname_np(pthread_self(), "profsuite-drain");
  std::unique_lock<std::mutex> lock(r.mutex);
  while (!r.quit) {
    drain_all(r);
    r.wake.wait_for(lock, std::chrono::milliseconds(20));
  }
}

inline void listen(Recorder& r, bool inputs) {
  r.callback = at::addGlobalCallback(at::RecordFunctionCallback(&on_start, &on_end).needsInputs(inputs));
}

inline void start(const std::shared_ptr<Session>& session) {
  Recorder& r = recorder();
  if (r.callback != at::INVALID_CALLBACK_HANDLE) { // inherited through fork
    at::removeCallback(r.callback);
    r.callback = at::INVALID_CALLBACK_HANDLE;
  }
  {
    const std::lock_guard<std::mutex> lock(r.mutex);
    session->number = ++r.next_number;
    session->started = read_clocks(session->use_counter);
    r.session = session;
    r.quit = false;
    // Signals are for the threads that the program knows of.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      r.drainer = new std::thread(drain_loop);
    } catch (...) {
      r.session.reset();
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
      throw;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    current.store(session.get(), std::memory_order_release);
  }
  listen(r, session->shapes || session->collectives);
}

// A process group was made after the start: from now on the inputs of ops are needed.
inline void read_groups() {
  Recorder& r = recorder();
  std::shared_ptr<Session> session;
  {
    const std::lock_guard<std::mutex> lock(r.mutex);
    session = r.session;
  }
  if (session == nullptr || session->collectives.exchange(true) || session->shapes) {
    return;
  }
  at::removeCallback(r.callback);
  listen(r, true);
}

// The session with all that was recorded, nullptr if none ran; its rows are the caller's alone.
inline std::shared_ptr<Session> stop() {
  Recorder& r = recorder();
  std::thread* drainer = nullptr;
  {
    const std::lock_guard<std::mutex> lock(r.mutex);
    if (r.session == nullptr || r.drainer == nullptr) {
      return nullptr;
    }
    r.quit = true;
    drainer = r.drainer;
    r.drainer = nullptr;
  }
  current.store(nullptr, std::memory_order_release);
  at::removeCallback(r.callback);
  r.callback = at::INVALID_CALLBACK_HANDLE;
  r.wake.notify_all();
  drainer->join();
  delete drainer;
  const std::lock_guard<std::mutex> lock(r.mutex);
  drain_all(r);
  std::shared_ptr<Session> session = std::move(r.session);
  r.session.reset();
  for (auto& thread : r.threads) {
    if (thread->session == session) {
      session->overruns += thread->overruns;
      session->shapeless += thread->shapeless;
      thread->forget();
    }
  }
  return session;
}

// fork: the child has no drain, and its copies of the other threads' rings are nobody's.
inline void before_fork() {
  recorder().mutex.lock();
}

inline void after_fork_in_parent() {
  recorder().mutex.unlock();
}

inline void after_fork_in_child() {
  Recorder& r = recorder();
  current.store(nullptr, std::memory_order_release);
  r.drainer = nullptr; // the thread does not exist here: its object is left alone
  r.quit = false;
  new (&r.wake) std::condition_variable; // it counts a waiter that is gone
  for (auto& thread : r.threads) {
    if (thread.get() != this_thread) {
      (void)thread.release();
    }
  }
  r.threads.clear();
  this_thread = nullptr;
  auto* const inherited = new std::shared_ptr<Session>(std::move(r.session));
  (void)inherited; // its mutexes may be held by threads that are gone: left alone too
  r.session.reset();
  r.mutex.unlock();
}

} // namespace profsuite
