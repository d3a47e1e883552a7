/* A small libcupti: the functions that the engine uses, without a GPU.
 *
 * It fills the real record structs of the headers it is compiled against, on the caller's thread, into buffers that
 * it asks the client for while it holds its lock, as CUPTI does, and gives them back on a thread of its own.  sim_*
 * functions say what happens and what goes wrong.
 */
#define _GNU_SOURCE
#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <cupti_driver_cbid.h>
#include <cupti_result.h>
#include <cupti_runtime_cbid.h>
#include <cupti_version.h>

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#if CUPTI_API_VERSION >= 130500
typedef CUpti_ActivityKernel13 Kernel;
typedef CUpti_ActivityMemcpy7 Memcpy;
typedef CUpti_ActivityMemset5 Memset;
typedef CUpti_ActivityCudaEvent3 CudaEvent;
#else
typedef CUpti_ActivityKernel9 Kernel;
typedef CUpti_ActivityMemcpy6 Memcpy;
typedef CUpti_ActivityMemset4 Memset;
typedef CUpti_ActivityCudaEvent2 CudaEvent;
#endif
typedef CUpti_ActivityMemcpyPtoP4 MemcpyPtoP;
typedef CUpti_ActivityOverhead3 Overhead;
typedef CUpti_ActivitySynchronization2 Synchronization;
typedef CUpti_ActivityGraphTrace2 GraphTrace;

/* A kind that no CUPTI has, with its size in the record. */
#define FUTURE_KIND 200
typedef struct {
  uint32_t kind, size;
} Future;

enum { KINDS = 256, CALLS = 2048, DEPTH = 64, MAX_BUFFERS = 4096 };

typedef struct {
  uint8_t *data;
  size_t size, used, records, max_records;
} Buffer;

static pthread_mutex_t lock;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER, done = PTHREAD_COND_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static CUpti_BuffersCallbackRequestFunc requested;
static CUpti_BuffersCallbackCompleteFunc completed;
static Buffer current;
static Buffer filled[MAX_BUFFERS];
static int num_filled, completing;
static uint8_t enabled[KINDS], driver_on[CALLS], runtime_off[CALLS];
static int subscribed, thread_id_type;
static size_t dropped;
static struct {
  char function[64];
  int kind, status;
} failures[16];
static int num_failures;

/* Settings, by name in sim_set. */
static int64_t hold, reverse, buffer_records, walk, clock_offset, clock_drift_ppm;
static uint64_t clock_base;

static __thread uint64_t stacks[CUPTI_EXTERNAL_CORRELATION_KIND_SIZE][DEPTH];
static __thread int depths[CUPTI_EXTERNAL_CORRELATION_KIND_SIZE];

static uint64_t real_time(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void *worker(void *unused) {
  (void)unused;
  pthread_mutex_lock(&lock);
  while (1) {
    while (num_filled == 0 || hold) {
      pthread_cond_broadcast(&done);
      pthread_cond_wait(&work, &lock);
    }
    int at = reverse ? num_filled - 1 : 0;
    Buffer buffer = filled[at];
    memmove(filled + at, filled + at + 1, sizeof(Buffer) * (size_t)(num_filled - at - 1));
    num_filled--;
    completing++;
    CUpti_BuffersCallbackCompleteFunc give_back = completed;
    pthread_mutex_unlock(&lock);
    give_back(NULL, 0, buffer.data, buffer.size, buffer.used);
    pthread_mutex_lock(&lock);
    completing--;
  }
  return NULL;
}

static void initialise(void) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutex_init(&lock, &attributes);
  pthread_t thread;
  pthread_create(&thread, NULL, worker, NULL);
  pthread_detach(thread);
}

static void enter(void) {
  pthread_once(&once, initialise);
  pthread_mutex_lock(&lock);
}

static int leave(int status) {
  pthread_mutex_unlock(&lock);
  return status;
}

static int failure(const char *function, int kind) {
  for (int i = 0; i < num_failures; i++)
    if (strcmp(failures[i].function, function) == 0 && (failures[i].kind < 0 || failures[i].kind == kind))
      return failures[i].status;
  return 0;
}

/* ---------------------------------------------------------------- what the tests drive */

void sim_reset(void) {
  enter();
  hold = reverse = buffer_records = walk = clock_offset = clock_drift_ppm = 0;
  num_failures = 0;
  dropped = 0;
  subscribed = 0;
  thread_id_type = 0;
  memset(enabled, 0, sizeof enabled);
  memset(driver_on, 0, sizeof driver_on);
  memset(runtime_off, 0, sizeof runtime_off);
  pthread_cond_broadcast(&work);
  while (num_filled > 0 || completing > 0) pthread_cond_wait(&done, &lock);
  leave(0);
}

int sim_set(const char *name, int64_t value) {
  struct {
    const char *name;
    int64_t *value;
  } settings[] = {
      {"hold", &hold},   {"reverse", &reverse},           {"buffer_records", &buffer_records},
      {"walk", &walk},   {"clock_offset", &clock_offset}, {"clock_drift_ppm", &clock_drift_ppm},
  };
  enter();
  if (strcmp(name, "dropped") == 0) {
    dropped = (size_t)value;
    return leave(0);
  }
  for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
    if (strcmp(name, settings[i].name) == 0) {
      *settings[i].value = value;
      clock_base = real_time();
      pthread_cond_broadcast(&work);
      return leave(0);
    }
  return leave(-1);
}

/* Waits until buffers that are not held were given back. */
void sim_settle(void) {
  enter();
  while ((num_filled > 0 && !hold) || completing > 0) pthread_cond_wait(&done, &lock);
  leave(0);
}

void sim_fail(const char *function, int kind, int status) {
  enter();
  int i = 0; /* the last word counts */
  while (i < num_failures && (strcmp(failures[i].function, function) != 0 || failures[i].kind != kind)) i++;
  num_failures += i == num_failures;
  snprintf(failures[i].function, sizeof failures[0].function, "%s", function);
  failures[i].kind = kind;
  failures[i].status = status;
  leave(0);
}

int sim_num_enabled(void) {
  int count = 0;
  enter();
  for (int i = 0; i < KINDS; i++) count += enabled[i];
  for (int i = 0; i < CALLS; i++) count += driver_on[i];
  return leave(count);
}

int sim_subscribed(void) {
  enter();
  return leave(subscribed);
}

/* Ends the buffer that is being filled. */
static void finish_current(void) {
  if (current.data == NULL) return;
  if (num_filled < MAX_BUFFERS) filled[num_filled++] = current;
  current.data = NULL;
  pthread_cond_broadcast(&work);
}

static void emit(const void *record, size_t size) {
  uint32_t kind;
  memcpy(&kind, record, sizeof kind);
  if (requested == NULL || (kind < KINDS && !enabled[kind] && kind != CUPTI_ACTIVITY_KIND_DRIVER && kind < FUTURE_KIND))
    return;
  if (current.data != NULL && (current.used + size > current.size ||
                               (current.max_records != 0 && current.records >= current.max_records)))
    finish_current();
  if (current.data == NULL) {
    memset(&current, 0, sizeof current);
    requested(&current.data, &current.size, &current.max_records);
    if (buffer_records) current.max_records = (size_t)buffer_records;
    if (current.data == NULL || current.size < size) {
      dropped++;
      return;
    }
  }
  memcpy(current.data + current.used, record, size);
  current.used += size;
  current.records++;
}

#define EMIT(record) (enter(), emit(&(record), sizeof(record)), (void)leave(0))

void sim_kernel(const char *name, uint64_t start, uint64_t end, uint32_t device, uint32_t context, uint32_t stream,
                uint32_t correlation, const int32_t *launch, uint32_t graph, uint64_t node, uint64_t queued) {
  Kernel r;
  memset(&r, 0xA5, sizeof r); /* what the engine does not read must not matter */
  r.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  r.name = name == NULL ? NULL : strdup(name);
  r.start = start;
  r.end = end;
  r.deviceId = device;
  r.contextId = context;
  r.streamId = stream;
  r.correlationId = correlation;
  r.gridX = launch[0];
  r.gridY = launch[1];
  r.gridZ = launch[2];
  r.blockX = launch[3];
  r.blockY = launch[4];
  r.blockZ = launch[5];
  r.registersPerThread = (uint16_t)launch[6];
  r.staticSharedMemory = launch[7];
  r.dynamicSharedMemory = launch[8];
  r.graphId = graph;
  r.graphNodeId = node;
  r.queued = queued;
  EMIT(r);
}

void sim_memcpy(int copy, int from, int to, uint64_t bytes, uint64_t start, uint64_t end, uint32_t device,
                uint32_t context, uint32_t stream, uint32_t correlation) {
  Memcpy r;
  memset(&r, 0, sizeof r);
  r.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
  r.copyKind = (uint8_t)copy;
  r.srcKind = (uint8_t)from;
  r.dstKind = (uint8_t)to;
  r.bytes = bytes;
  r.start = start;
  r.end = end;
  r.deviceId = device;
  r.contextId = context;
  r.streamId = stream;
  r.correlationId = correlation;
  EMIT(r);
}

void sim_memcpy_peer(uint64_t bytes, uint64_t start, uint64_t end, uint32_t from, uint32_t to, uint32_t context,
                     uint32_t stream, uint32_t correlation) {
  MemcpyPtoP r;
  memset(&r, 0, sizeof r);
  r.kind = CUPTI_ACTIVITY_KIND_MEMCPY2;
  r.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_PTOP;
  r.srcKind = r.dstKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  r.bytes = bytes;
  r.start = start;
  r.end = end;
  r.deviceId = r.srcDeviceId = from;
  r.dstDeviceId = to;
  r.contextId = context;
  r.streamId = stream;
  r.correlationId = correlation;
  EMIT(r);
}

void sim_memset(int memory, uint64_t bytes, uint64_t start, uint64_t end, uint32_t device, uint32_t context,
                uint32_t stream, uint32_t correlation) {
  Memset r;
  memset(&r, 0, sizeof r);
  r.kind = CUPTI_ACTIVITY_KIND_MEMSET;
  r.memoryKind = (uint16_t)memory;
  r.bytes = bytes;
  r.start = start;
  r.end = end;
  r.deviceId = device;
  r.contextId = context;
  r.streamId = stream;
  r.correlationId = correlation;
  EMIT(r);
}

/* A call of the runtime (or the driver) on this thread, with the external ids that are pushed here. */
void sim_call(int of_driver, uint32_t call, uint64_t start, uint64_t end, uint32_t correlation) {
  CUpti_ActivityAPI r;
  memset(&r, 0, sizeof r);
  r.kind = of_driver ? CUPTI_ACTIVITY_KIND_DRIVER : CUPTI_ACTIVITY_KIND_RUNTIME;
  r.cbid = call;
  r.start = start;
  r.end = end;
  r.processId = (uint32_t)getpid();
  r.threadId = thread_id_type == CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM ? (uint32_t)syscall(SYS_gettid) : 0xDEAD;
  r.correlationId = correlation;
  enter();
  int recorded = of_driver ? enabled[CUPTI_ACTIVITY_KIND_DRIVER] || driver_on[call]
                           : enabled[CUPTI_ACTIVITY_KIND_RUNTIME] && !runtime_off[call];
  for (int kind = 1; recorded && kind < CUPTI_EXTERNAL_CORRELATION_KIND_SIZE; kind++) {
    if (depths[kind] == 0) continue;
    CUpti_ActivityExternalCorrelation external;
    memset(&external, 0, sizeof external);
    external.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
    external.externalKind = (CUpti_ExternalCorrelationKind)kind;
    external.externalId = stacks[kind][depths[kind] - 1];
    external.correlationId = correlation;
    emit(&external, sizeof external);
  }
  if (recorded) emit(&r, sizeof r);
  leave(0);
}

void sim_sync(int type, uint64_t start, uint64_t end, uint32_t correlation, uint32_t context, uint32_t stream,
              uint32_t event, uint64_t sync_id) {
  Synchronization r;
  memset(&r, 0, sizeof r);
  r.kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;
  r.type = (CUpti_ActivitySynchronizationType)type;
  r.start = start;
  r.end = end;
  r.correlationId = correlation;
  r.contextId = context;
  r.streamId = stream;
  r.cudaEventId = event;
  r.cudaEventSyncId = sync_id;
  EMIT(r);
}

void sim_event(uint32_t correlation, uint32_t context, uint32_t stream, uint32_t event, uint64_t sync_id) {
  CudaEvent r;
  memset(&r, 0, sizeof r);
  r.kind = CUPTI_ACTIVITY_KIND_CUDA_EVENT;
  r.correlationId = correlation;
  r.contextId = context;
  r.streamId = stream;
  r.eventId = event;
  r.cudaEventSyncId = sync_id;
  EMIT(r);
}

void sim_overhead(uint32_t kind, uint64_t start, uint64_t end) {
  Overhead r;
  memset(&r, 0, sizeof r);
  r.kind = CUPTI_ACTIVITY_KIND_OVERHEAD;
  r.overheadKind = (CUpti_ActivityOverheadKind)kind;
  r.start = start;
  r.end = end;
  EMIT(r);
}

void sim_graph(uint32_t graph, uint64_t start, uint64_t end, uint32_t device, uint32_t context, uint32_t stream,
               uint32_t correlation) {
  GraphTrace r;
  memset(&r, 0, sizeof r);
  r.kind = CUPTI_ACTIVITY_KIND_GRAPH_TRACE;
  r.graphId = graph;
  r.start = start;
  r.end = end;
  r.deviceId = device;
  r.contextId = context;
  r.streamId = stream;
  r.correlationId = correlation;
  EMIT(r);
}

/* A record of a kind that this CUPTI has and the engine has not. */
void sim_future(void) {
  struct {
    Future head;
    uint64_t body[3];
  } r = {{FUTURE_KIND, sizeof r}, {1, 2, 3}};
  EMIT(r);
}

/* Kernels from several threads at once, each on its own stream, with correlation ids of its own. */
typedef struct {
  uint32_t thread, count;
} Storm;

static void *storm(void *argument) {
  static const int32_t launch[9] = {1, 1, 1, 32, 1, 1, 8, 0, 0};
  Storm *s = argument;
  for (uint32_t i = 0; i < s->count; i++) {
    uint32_t correlation = s->thread * s->count + i + 1;
    uint64_t at = 1000 + 10 * (uint64_t)i;
    sim_call(0, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000, at, at + 2, correlation);
    char name[32];
    snprintf(name, sizeof name, "kernel_%u", i % 7);
    sim_kernel(name, at + 3, at + 9, 0, 1, 7 + s->thread, correlation, launch, 0, 0, 0);
  }
  return NULL;
}

void sim_storm(uint32_t threads, uint32_t count) {
  pthread_t ids[16];
  Storm storms[16];
  for (uint32_t i = 0; i < threads && i < 16; i++) {
    storms[i] = (Storm){i, count};
    pthread_create(&ids[i], NULL, storm, &storms[i]);
  }
  for (uint32_t i = 0; i < threads && i < 16; i++) pthread_join(ids[i], NULL);
}

/* ---------------------------------------------------------------- libcupti */

#define FAIL_IF_TOLD(kind)                       \
  enter();                                       \
  int told = failure(__func__, (int)(kind));     \
  if (told) return (CUptiResult)leave(told)

CUptiResult CUPTIAPI cuptiGetVersion(uint32_t *version) {
  *version = CUPTI_API_VERSION;
  return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiGetResultString(CUptiResult result, const char **text) {
  switch ((int)result) {
    case 12: *text = "CUPTI_ERROR_MAX_LIMIT_REACHED"; break;
    case 13: *text = "CUPTI_ERROR_NOT_READY"; break;
    case 15: *text = "CUPTI_ERROR_NOT_INITIALIZED"; break;
    case 35: *text = "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"; break;
    case 39: *text = "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"; break;
    default: *text = NULL; return CUPTI_ERROR_INVALID_PARAMETER;
  }
  return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiGetTimestamp(uint64_t *timestamp) {
  FAIL_IF_TOLD(-1);
  uint64_t now = real_time();
  int64_t drift = (int64_t)(now - clock_base) * clock_drift_ppm / 1000000;
  *timestamp = (uint64_t)((int64_t)now + clock_offset + drift);
  return (CUptiResult)leave(0);
}

CUptiResult CUPTIAPI cuptiSubscribe(CUpti_SubscriberHandle *subscriber, CUpti_CallbackFunc callback, void *data) {
  (void)callback;
  (void)data;
  FAIL_IF_TOLD(-1);
  if (subscribed) return (CUptiResult)leave(39);
  subscribed = 1;
  *subscriber = (CUpti_SubscriberHandle)&subscribed;
  return (CUptiResult)leave(0);
}

CUptiResult CUPTIAPI cuptiUnsubscribe(CUpti_SubscriberHandle subscriber) {
  (void)subscriber;
  enter();
  subscribed = 0;
  return (CUptiResult)leave(0);
}

CUptiResult CUPTIAPI cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                                    CUpti_BuffersCallbackCompleteFunc complete) {
  FAIL_IF_TOLD(-1);
  requested = request;
  completed = complete;
  return (CUptiResult)leave(0);
}

CUptiResult CUPTIAPI cuptiActivityEnable(CUpti_ActivityKind kind) {
  FAIL_IF_TOLD(kind);
  enabled[kind] = 1;
  return (CUptiResult)leave(0);
}

CUptiResult CUPTIAPI cuptiActivityDisable(CUpti_ActivityKind kind) {
  FAIL_IF_TOLD(kind);
  enabled[kind] = 0;
  return (CUptiResult)leave(0);
}

CUptiResult CUPTIAPI cuptiActivityEnableDriverApi(CUpti_CallbackId call, uint8_t enable) {
  FAIL_IF_TOLD(call);
  driver_on[call] = enable;
  return (CUptiResult)leave(0);
}

CUptiResult CUPTIAPI cuptiActivityEnableRuntimeApi(CUpti_CallbackId call, uint8_t enable) {
  FAIL_IF_TOLD(call);
  runtime_off[call] = !enable;
  return (CUptiResult)leave(0);
}

CUptiResult CUPTIAPI cuptiActivityFlushAll(uint32_t flag) {
  (void)flag;
  FAIL_IF_TOLD(-1);
  finish_current();
  while (!hold && (num_filled > 0 || completing > 0)) pthread_cond_wait(&done, &lock);
  return (CUptiResult)leave(0);
}

CUptiResult CUPTIAPI cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t stream, size_t *count) {
  (void)context;
  (void)stream;
  enter();
  *count = dropped;
  dropped = 0;
  return (CUptiResult)leave(0);
}

static size_t size_of(const uint8_t *record) {
  Future head;
  memcpy(&head, record, sizeof head);
  switch (head.kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: return sizeof(Kernel);
    case CUPTI_ACTIVITY_KIND_MEMCPY: return sizeof(Memcpy);
    case CUPTI_ACTIVITY_KIND_MEMCPY2: return sizeof(MemcpyPtoP);
    case CUPTI_ACTIVITY_KIND_MEMSET: return sizeof(Memset);
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER: return sizeof(CUpti_ActivityAPI);
    case CUPTI_ACTIVITY_KIND_OVERHEAD: return sizeof(Overhead);
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION: return sizeof(Synchronization);
    case CUPTI_ACTIVITY_KIND_CUDA_EVENT: return sizeof(CudaEvent);
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: return sizeof(CUpti_ActivityExternalCorrelation);
    case CUPTI_ACTIVITY_KIND_GRAPH_TRACE: return sizeof(GraphTrace);
    default: return head.size;
  }
}

CUptiResult CUPTIAPI cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, CUpti_Activity **record) {
  if (*record == NULL) {
    if (valid == 0) return CUPTI_ERROR_MAX_LIMIT_REACHED;
    *record = (CUpti_Activity *)buffer;
    return CUPTI_SUCCESS;
  }
  switch (walk) {
    case 1: return CUPTI_SUCCESS; /* never moves on */
    case 2: *record = (CUpti_Activity *)(buffer + valid + 64); return CUPTI_SUCCESS;
    case 3: return CUPTI_ERROR_INVALID_KIND;
    case 4: *record = (CUpti_Activity *)(buffer - 8); return CUPTI_SUCCESS;
    default: break;
  }
  uint8_t *next = (uint8_t *)*record + size_of((uint8_t *)*record);
  if (next >= buffer + valid) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = (CUpti_Activity *)next;
  return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiSetThreadIdType(CUpti_ActivityThreadIdType type) {
  FAIL_IF_TOLD(-1);
  thread_id_type = (int)type;
  return (CUptiResult)leave(0);
}

CUptiResult CUPTIAPI cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind, uint64_t id) {
  if (depths[kind] == DEPTH) return CUPTI_ERROR_OUT_OF_MEMORY;
  stacks[kind][depths[kind]++] = id;
  return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind, uint64_t *last) {
  if (depths[kind] == 0) return CUPTI_ERROR_QUEUE_EMPTY;
  *last = stacks[kind][--depths[kind]];
  return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiGetCallbackName(CUpti_CallbackDomain domain, uint32_t call, const char **name) {
  *name = NULL;
  if (domain == CUPTI_CB_DOMAIN_RUNTIME_API) switch (call) {
      case CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000: *name = "cudaLaunchKernel_v7000"; break;
      case CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020: *name = "cudaMemcpyAsync_v3020"; break;
      case CUPTI_RUNTIME_TRACE_CBID_cudaMemsetAsync_v3020: *name = "cudaMemsetAsync_v3020"; break;
      case CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000: *name = "cudaGraphLaunch_v10000"; break;
      case CUPTI_RUNTIME_TRACE_CBID_cudaDeviceSynchronize_v3020: *name = "cudaDeviceSynchronize_v3020"; break;
      case CUPTI_RUNTIME_TRACE_CBID_cudaGetDevice_v3020: *name = "cudaGetDevice_v3020"; break;
      default: break;
    }
  if (domain == CUPTI_CB_DOMAIN_DRIVER_API) switch (call) {
      case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel: *name = "cuLaunchKernel"; break;
      case CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2: *name = "cuMemAlloc_v2"; break;
      default: break;
    }
  return *name == NULL ? CUPTI_ERROR_INVALID_PARAMETER : CUPTI_SUCCESS;
}
