// GPU activity from CUPTI without Kineto: a shared library with a plain C interface for ctypes.
//
// It is compiled against whatever CUPTI headers the machine has and opens libcupti at run time.
// CUPTI calls buffer_requested and buffer_completed from its own threads, sometimes while it holds its
// own lock, so neither takes the GIL nor waits for anything but a short mutex.  Completed buffers go
// into a queue; one thread empties it: it cuts the part of each record that the decoder needs
// (the same in every CUPTI of CUDA 12 and 13, because new record versions only append fields) into one
// contiguous store a kind, replaces pointers to names by numbers, and gives the buffer back to the pool.
//
// Nothing here is ever destroyed: CUPTI may call back while the process exits.

#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <cupti_driver_cbid.h>
#include <cupti_runtime_cbid.h>
#include <cupti_version.h>

#include "cupti_records.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

// ---------------------------------------------------------------- libcupti

struct Api {
  decltype(&cuptiGetVersion) version;
  decltype(&cuptiGetResultString) result_string;
  decltype(&cuptiGetTimestamp) timestamp;
  decltype(&cuptiSubscribe) subscribe;
  decltype(&cuptiUnsubscribe) unsubscribe;
  decltype(&cuptiActivityRegisterCallbacks) register_callbacks;
  decltype(&cuptiActivityEnable) enable;
  decltype(&cuptiActivityDisable) disable;
  decltype(&cuptiActivityFlushAll) flush_all;
  decltype(&cuptiActivityGetNextRecord) next_record;
  decltype(&cuptiActivityGetNumDroppedRecords) num_dropped;
  decltype(&cuptiActivityPushExternalCorrelationId) push_external;
  decltype(&cuptiActivityPopExternalCorrelationId) pop_external;
  decltype(&cuptiGetCallbackName) callback_name;
  // Not in every version.
  decltype(&cuptiSetThreadIdType) set_thread_id_type;
  CUptiResult(CUPTIAPI *enable_driver_api)(CUpti_CallbackId, uint8_t);
  CUptiResult(CUPTIAPI *enable_runtime_api)(CUpti_CallbackId, uint8_t);
};

// ---------------------------------------------------------------- the engine

struct alignas(64) Buffer {
  uint64_t session;
  size_t size;
  size_t valid;
  uint8_t *data() { return reinterpret_cast<uint8_t *>(this) + sizeof(Buffer); }
};

struct Engine {
  Api api = {};
  bool opened = false;
  std::string path;
  std::mutex control;  // start, stop and flush, one at a time

  std::mutex lock;  // all below, held shortly
  std::condition_variable work, idle;
  std::vector<Buffer *> pool;
  std::deque<Buffer *> queue;
  size_t num_buffers = 0, max_buffers = 0, buffer_size = 0;
  size_t outstanding = 0;  // of this session, with CUPTI
  uint64_t session = 0;
  bool running = false, draining = false, closing = false;
  Tally tally;

  std::thread *drainer = nullptr;
  Stores stores;
  CUpti_SubscriberHandle subscriber = nullptr;
  std::vector<uint32_t> enabled;
  std::vector<std::pair<bool, uint32_t>> enabled_calls;  // whether of the driver, callback id
};

Engine *engine() {
  static Engine *const instance = new Engine;  // never deleted
  return instance;
}

bool forked_away = false;

void CUPTIAPI buffer_requested(uint8_t **data, size_t *size, size_t *max_records) {
  Engine &e = *engine();
  *data = nullptr;
  *size = 0;
  *max_records = 0;
  std::lock_guard<std::mutex> hold(e.lock);
  if (!e.running) return;
  Buffer *buffer = nullptr;
  if (!e.pool.empty()) {
    buffer = e.pool.back();
    e.pool.pop_back();
  } else if (e.num_buffers < e.max_buffers) {
    void *memory = aligned_alloc(alignof(Buffer), sizeof(Buffer) + e.buffer_size);
    if (memory != nullptr) {
      buffer = static_cast<Buffer *>(memory);
      buffer->size = e.buffer_size;
      e.num_buffers++;
    }
  }
  if (buffer == nullptr) {
    e.tally.n[kBuffersDenied]++;
    return;
  }
  buffer->session = e.session;
  e.outstanding++;
  e.tally.n[kBuffersRequested]++;
  *data = buffer->data();
  *size = buffer->size;
}

void CUPTIAPI buffer_completed(CUcontext context, uint32_t stream, uint8_t *data, size_t, size_t valid) {
  if (data == nullptr) return;
  Engine &e = *engine();
  size_t dropped = 0;
  bool counted = e.api.num_dropped(context, stream, &dropped) == CUPTI_SUCCESS;
  auto *buffer = reinterpret_cast<Buffer *>(data - sizeof(Buffer));
  std::lock_guard<std::mutex> hold(e.lock);
  if (!e.running || buffer->session != e.session) {
    e.tally.n[kBuffersLate]++;
    free(buffer);
    return;
  }
  e.outstanding--;
  e.tally.n[kBuffersCompleted]++;
  if (counted) e.tally.n[kDropped] += dropped;
  buffer->valid = valid < buffer->size ? valid : buffer->size;
  e.tally.n[kBytes] += buffer->valid;
  if (buffer->valid == 0) {
    e.pool.push_back(buffer);
    e.idle.notify_all();
    return;
  }
  e.queue.push_back(buffer);
  e.work.notify_one();
}

void CUPTIAPI no_callback(void *, CUpti_CallbackDomain, CUpti_CallbackId, const void *) {}

void drain(Engine *engine) {
  Engine &e = *engine;
  pthread_setname_np(pthread_self(), "profsuite-cupti");
  std::unique_lock<std::mutex> hold(e.lock);
  while (true) {
    e.work.wait(hold, [&] { return e.closing || !e.queue.empty(); });
    if (e.queue.empty()) return;
    Buffer *buffer = e.queue.front();
    e.queue.pop_front();
    e.draining = true;
    hold.unlock();
    Tally tally;
    {
      std::lock_guard<std::mutex> storing(e.stores.lock);
      walk_with_cupti(e.api.next_record, e.stores, tally, buffer->data(), buffer->valid);
    }
    hold.lock();
    for (size_t i = 0; i < kNumCounts; i++) e.tally.n[i] += tally.n[i];
    e.pool.push_back(buffer);
    e.draining = false;
    e.idle.notify_all();
  }
}

// Whether everything that came back was read, and with ``all`` whether every buffer came back, in time.
bool wait_idle(Engine &e, bool all, uint32_t timeout_ms) {
  std::unique_lock<std::mutex> hold(e.lock);
  return e.idle.wait_for(hold, std::chrono::milliseconds(timeout_ms), [&] {
    return e.queue.empty() && !e.draining && (!all || e.outstanding == 0);
  });
}

void count_dropped(Engine &e) {
  size_t dropped = 0;
  if (e.api.num_dropped(nullptr, 0, &dropped) != CUPTI_SUCCESS) return;
  std::lock_guard<std::mutex> hold(e.lock);
  e.tally.n[kDropped] += dropped;
}

void check(Engine &e, CUptiResult status) {
  if (status == CUPTI_SUCCESS) return;
  std::lock_guard<std::mutex> hold(e.lock);
  e.tally.n[kErrors]++;
}

void disable_all(Engine &e) {
  for (auto &call : e.enabled_calls)
    check(e, call.first ? e.api.enable_driver_api(call.second, 0) : e.api.enable_runtime_api(call.second, 0));
  for (uint32_t kind : e.enabled) check(e, e.api.disable(static_cast<CUpti_ActivityKind>(kind)));
  e.enabled_calls.clear();
  e.enabled.clear();
}

// Ends the session: late buffers are freed when they come.
void end_session(Engine &e) {
  {
    std::lock_guard<std::mutex> hold(e.lock);
    e.closing = true;
    e.work.notify_all();
  }
  if (e.drainer != nullptr) {
    e.drainer->join();
    delete e.drainer;
    e.drainer = nullptr;
  }
  if (e.subscriber != nullptr) {
    check(e, e.api.unsubscribe(e.subscriber));
    e.subscriber = nullptr;
  }
  std::lock_guard<std::mutex> hold(e.lock);
  e.running = e.closing = false;
  for (Buffer *buffer : e.pool) free(buffer);
  e.pool.clear();
  e.num_buffers = 0;
}

// Launches, by the driver API: what Triton, and the runtime beneath cudaLaunchKernel, use.
constexpr uint32_t kDriverLaunches[] = {
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel,   CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel, CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch,    CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz,
};
// Frequent and of no interest: the calls that Kineto leaves out as well.
constexpr uint32_t kQuietRuntime[] = {
    CUPTI_RUNTIME_TRACE_CBID_cudaGetDevice_v3020,      CUPTI_RUNTIME_TRACE_CBID_cudaSetDevice_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaGetLastError_v3020,   CUPTI_RUNTIME_TRACE_CBID_cudaEventCreate_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaEventCreateWithFlags_v3020, CUPTI_RUNTIME_TRACE_CBID_cudaEventDestroy_v3020,
};

template <typename T>
bool load(void *library, const char *name, T &function) {
  function = reinterpret_cast<T>(dlsym(library, name));
  return function != nullptr;
}

}  // namespace

// ---------------------------------------------------------------- the C interface

constexpr int kRefused = -1;  // a call that does not fit the engine's state
constexpr int kTimedOut = -2;
constexpr int kForked = -3;

struct psc_kind {
  uint32_t kind, least, item, name_offset;
};

EXPORT uint32_t psc_header_version(void) { return CUPTI_API_VERSION; }

EXPORT size_t psc_layout(struct psc_kind *out, size_t num) {
  for (size_t i = 0; i < kNumKinds && i < num; i++)
    out[i] = {kKinds[i].kind, kKinds[i].least, kKinds[i].item, kKinds[i].name_offset};
  return kNumKinds;
}

// Opens libcupti; 0, or kRefused with the reason in ``error``.  A process opens one only.
EXPORT int psc_open(const char *path, char *error, size_t error_size) {
  Engine &e = *engine();
  std::lock_guard<std::mutex> controlling(e.control);
  if (e.opened) {
    if (e.path == path) return 0;
    snprintf(error, error_size, "this process uses %s already", e.path.c_str());
    return kRefused;
  }
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    snprintf(error, error_size, "%s", dlerror());
    return kRefused;
  }
  Api &api = e.api;
  const char *missing = nullptr;
#define NEED(field, name) \
  if (missing == nullptr && !load(library, #name, api.field)) missing = #name
  NEED(version, cuptiGetVersion);
  NEED(result_string, cuptiGetResultString);
  NEED(timestamp, cuptiGetTimestamp);
  NEED(subscribe, cuptiSubscribe);
  NEED(unsubscribe, cuptiUnsubscribe);
  NEED(register_callbacks, cuptiActivityRegisterCallbacks);
  NEED(enable, cuptiActivityEnable);
  NEED(disable, cuptiActivityDisable);
  NEED(flush_all, cuptiActivityFlushAll);
  NEED(next_record, cuptiActivityGetNextRecord);
  NEED(num_dropped, cuptiActivityGetNumDroppedRecords);
  NEED(push_external, cuptiActivityPushExternalCorrelationId);
  NEED(pop_external, cuptiActivityPopExternalCorrelationId);
  NEED(callback_name, cuptiGetCallbackName);
  if (missing != nullptr) {
    snprintf(error, error_size, "%s lacks %s", path, missing);
    dlclose(library);
    return kRefused;
  }
  load(library, "cuptiSetThreadIdType", api.set_thread_id_type);
  load(library, "cuptiActivityEnableDriverApi", api.enable_driver_api);
  load(library, "cuptiActivityEnableRuntimeApi", api.enable_runtime_api);
  pthread_atfork(nullptr, nullptr, [] { forked_away = true; });
  e.path = path;
  e.opened = true;
  return 0;
}

EXPORT uint32_t psc_version(void) {
  uint32_t version = 0;
  Engine &e = *engine();
  return e.opened && e.api.version(&version) == CUPTI_SUCCESS ? version : 0;
}

EXPORT const char *psc_result_string(int status) {
  const char *text = nullptr;
  Engine &e = *engine();
  if (!e.opened || e.api.result_string(static_cast<CUptiResult>(status), &text) != CUPTI_SUCCESS) return nullptr;
  return text;
}

struct psc_config {
  const uint32_t *kinds;  // the first is the one that recording is pointless without
  size_t num_kinds;
  size_t buffer_size;
  size_t max_buffers;
  size_t max_bytes;        // of kept records
  int32_t driver_launches;  // record those driver calls only that launch
  int32_t quiet_runtime;    // leave out the frequent runtime calls of no interest
};

struct psc_started {
  char stage[64];        // the call that failed, with the status that psc_start returned
  uint64_t failed_kinds;  // bit i: kinds[i] could not be enabled
  int32_t failed_status;  // of the last of those
  int32_t system_threads;  // whether thread ids are those of the system
};

EXPORT int psc_start(const struct psc_config *config, struct psc_started *out) {
  Engine &e = *engine();
  memset(out, 0, sizeof *out);
  auto failed = [&](const char *stage, int status) {
    snprintf(out->stage, sizeof out->stage, "%s", stage);
    return status;
  };
  if (forked_away) return failed("fork", kForked);
  std::lock_guard<std::mutex> controlling(e.control);
  if (!e.opened || e.running) return failed(e.running ? "running" : "open", kRefused);

  // Nothing is needed of the subscription itself: it is how CUPTI tells that another tool is there.
  int status = e.api.subscribe(&e.subscriber, no_callback, nullptr);
  if (status != CUPTI_SUCCESS) {
    e.subscriber = nullptr;
    return failed("cuptiSubscribe", status);
  }
  {
    std::lock_guard<std::mutex> storing(e.stores.lock);
    e.stores.clear();
    e.stores.limit = config->max_bytes;
  }
  {
    std::lock_guard<std::mutex> hold(e.lock);
    uint64_t late = e.tally.n[kBuffersLate];  // of earlier sessions: said with this one
    e.tally = Tally();
    e.tally.n[kBuffersLate] = late;
    e.buffer_size = (config->buffer_size + 63) / 64 * 64;
    e.max_buffers = config->max_buffers;
    e.outstanding = 0;
    e.session++;
    e.running = true;
  }
  // Signals are for the threads of Python.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  e.drainer = new std::thread(drain, &e);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  status = e.api.register_callbacks(buffer_requested, buffer_completed);
  if (status != CUPTI_SUCCESS) {
    end_session(e);
    return failed("cuptiActivityRegisterCallbacks", status);
  }
  out->system_threads = e.api.set_thread_id_type != nullptr &&
                        e.api.set_thread_id_type(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM) == CUPTI_SUCCESS;
  for (size_t i = 0; i < config->num_kinds; i++) {
    uint32_t kind = config->kinds[i];
    if (kind == CUPTI_ACTIVITY_KIND_DRIVER && config->driver_launches && e.api.enable_driver_api != nullptr) {
      status = CUPTI_SUCCESS;
      for (uint32_t call : kDriverLaunches) {
        CUptiResult enabled = e.api.enable_driver_api(call, 1);
        if (enabled == CUPTI_SUCCESS)
          e.enabled_calls.emplace_back(true, call);
        else
          status = enabled;
      }
    } else {
      status = e.api.enable(static_cast<CUpti_ActivityKind>(kind));
      if (status == CUPTI_SUCCESS) e.enabled.push_back(kind);
    }
    if (status == CUPTI_SUCCESS && kind == CUPTI_ACTIVITY_KIND_RUNTIME && config->quiet_runtime &&
        e.api.enable_runtime_api != nullptr)
      for (uint32_t call : kQuietRuntime) check(e, e.api.enable_runtime_api(call, 0));
    if (status == CUPTI_SUCCESS) continue;
    if (i == 0) {
      disable_all(e);
      end_session(e);
      return failed("cuptiActivityEnable", status);
    }
    if (i < 64) out->failed_kinds |= uint64_t{1} << i;
    out->failed_status = status;
  }
  return 0;
}

// Gives what CUPTI has completed to the stores; 0, a CUPTI status, or kTimedOut.
EXPORT int psc_flush(uint32_t timeout_ms) {
  Engine &e = *engine();
  if (forked_away) return kForked;
  std::lock_guard<std::mutex> controlling(e.control);
  if (!e.running) return kRefused;
  CUptiResult status = e.api.flush_all(0);
  check(e, status);
  count_dropped(e);
  if (!wait_idle(e, false, timeout_ms)) return kTimedOut;
  return status;
}

// Ends the session; 0, or how many buffers CUPTI did not give back in time.
EXPORT int64_t psc_stop(uint32_t timeout_ms) {
  Engine &e = *engine();
  if (forked_away) return kForked;
  std::lock_guard<std::mutex> controlling(e.control);
  if (!e.running) return kRefused;
  check(e, e.api.flush_all(0));
  disable_all(e);
  check(e, e.api.flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
  wait_idle(e, true, timeout_ms);
  count_dropped(e);
  int64_t missing;
  {
    std::lock_guard<std::mutex> hold(e.lock);
    missing = static_cast<int64_t>(e.outstanding);
  }
  end_session(e);
  return missing;
}

// Reads CUPTI's clock between two readings of the system's: {system ns since the epoch, CUPTI ns, width}
// of the narrowest of ``tries``.
EXPORT int psc_clock(uint64_t out[3], uint32_t tries) {
  Engine &e = *engine();
  if (!e.opened) return kRefused;
  auto now = [] {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec);
  };
  out[2] = UINT64_MAX;
  for (uint32_t i = 0; i < tries; i++) {
    uint64_t reading = 0, before = now();
    CUptiResult status = e.api.timestamp(&reading);
    uint64_t after = now();
    if (status != CUPTI_SUCCESS) return status;
    if (after >= before && after - before < out[2]) {
      out[0] = before + (after - before) / 2;
      out[1] = reading;
      out[2] = after - before;
    }
  }
  return 0;
}

// Opens and closes the correlation of this thread's next calls to ``id``.
EXPORT int psc_push(uint64_t id) {
  return engine()->api.push_external(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2, id);
}

EXPORT int psc_pop(void) {
  uint64_t last;
  return engine()->api.pop_external(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2, &last);
}

EXPORT size_t psc_counts(uint64_t *out, size_t num) {
  Engine &e = *engine();
  std::lock_guard<std::mutex> hold(e.lock);
  for (size_t i = 0; i < kNumCounts && i < num; i++) out[i] = e.tally.n[i];
  return kNumCounts;
}

// Takes the oldest chunk of a kind (an index into the layout): its records, to be freed with psc_free, or
// null if there is none.
EXPORT uint8_t *psc_take(size_t index, size_t *count) {
  Stores &stores = engine()->stores;
  std::lock_guard<std::mutex> storing(stores.lock);
  *count = 0;
  if (index >= kNumKinds || stores.chunks[index].empty()) return nullptr;
  Chunk chunk = stores.chunks[index].front();
  stores.chunks[index].pop_front();
  *count = chunk.count;
  return chunk.data;
}

EXPORT void psc_free(uint8_t *data) { free(data); }

EXPORT size_t psc_num_names(void) {
  Stores &stores = engine()->stores;
  std::lock_guard<std::mutex> storing(stores.lock);
  return stores.names.size();
}

// Copies name ``number`` (from 1), demangled, into ``out``; its length, which may exceed ``size``.
EXPORT size_t psc_name(uint64_t number, char *out, size_t size) {
  Stores &stores = engine()->stores;
  std::lock_guard<std::mutex> storing(stores.lock);
  if (number == 0 || number > stores.names.size()) return 0;
  const std::string &name = stores.names[number - 1];
  int status = -1;
  char *clear = name.compare(0, 2, "_Z") == 0 ? abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status) : nullptr;
  const char *text = status == 0 && clear != nullptr ? clear : name.c_str();
  size_t length = strlen(text);
  memcpy(out, text, length < size ? length : size);
  free(clear);
  return length;
}

EXPORT const char *psc_callback_name(uint32_t domain, uint32_t call) {
  const char *name = nullptr;
  Engine &e = *engine();
  if (!e.opened || e.api.callback_name(static_cast<CUpti_CallbackDomain>(domain), call, &name) != CUPTI_SUCCESS)
    return nullptr;
  return name;
}

// Cuts a raw buffer into the stores without CUPTI, by a table of record sizes; adds to ``counts``.  For
// buffers kept from elsewhere; kRefused while a session runs.  Pointers to names are followed only with
// ``read_names``.
EXPORT int psc_split(const uint8_t *data, size_t valid, const uint32_t *sizes, size_t num_sizes, int read_names,
                     size_t limit, uint64_t *counts, size_t num_counts) {
  Engine &e = *engine();
  std::lock_guard<std::mutex> controlling(e.control);
  if (e.running) return kRefused;
  Tally tally;
  {
    std::lock_guard<std::mutex> storing(e.stores.lock);
    e.stores.limit = limit;
    walk_by_sizes(e.stores, tally, data, valid, sizes, num_sizes, read_names != 0);
  }
  for (size_t i = 0; i < kNumCounts && i < num_counts; i++) counts[i] += tally.n[i];
  return 0;
}

// Forgets every record and name.
EXPORT void psc_clear(void) {
  Stores &stores = engine()->stores;
  std::lock_guard<std::mutex> storing(stores.lock);
  stores.clear();
}
