// CUPTI's activity records: what the engine keeps of them, where, and how a buffer is cut into them.
#ifndef PROFSUITE_CUPTI_RECORDS_H
#define PROFSUITE_CUPTI_RECORDS_H

#include <cupti_activity.h>
#include <cupti_version.h>

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <deque>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

// ---------------------------------------------------------------- what is kept of a record

// decode.py has the same offsets as numpy dtypes; psc_layout lets it check them.
struct Kind {
  uint32_t kind;
  uint32_t least;        // bytes a record must have: the oldest version with all that is needed
  uint32_t item;         // bytes kept; what a record lacks of them becomes zero
  uint32_t name_offset;  // of the pointer to a name, 0 for none
};

constexpr uint32_t upto(size_t offset, size_t size) { return static_cast<uint32_t>((offset + size + 7) / 8 * 8); }
#define UPTO(type, field) upto(offsetof(type, field), sizeof(type::field))

constexpr Kind kKinds[] = {
    {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, UPTO(CUpti_ActivityKernel6, graphId), UPTO(CUpti_ActivityKernel6, graphId),
     offsetof(CUpti_ActivityKernel6, name)},
    {CUPTI_ACTIVITY_KIND_KERNEL, UPTO(CUpti_ActivityKernel6, graphId), UPTO(CUpti_ActivityKernel6, graphId),
     offsetof(CUpti_ActivityKernel6, name)},
    {CUPTI_ACTIVITY_KIND_MEMCPY, UPTO(CUpti_ActivityMemcpy4, graphId), UPTO(CUpti_ActivityMemcpy4, graphId), 0},
    {CUPTI_ACTIVITY_KIND_MEMCPY2, UPTO(CUpti_ActivityMemcpyPtoP3, graphId),
     UPTO(CUpti_ActivityMemcpyPtoP3, graphId), 0},
    {CUPTI_ACTIVITY_KIND_MEMSET, UPTO(CUpti_ActivityMemset3, graphId), UPTO(CUpti_ActivityMemset3, graphId), 0},
    {CUPTI_ACTIVITY_KIND_RUNTIME, sizeof(CUpti_ActivityAPI), sizeof(CUpti_ActivityAPI), 0},
    {CUPTI_ACTIVITY_KIND_DRIVER, sizeof(CUpti_ActivityAPI), sizeof(CUpti_ActivityAPI), 0},
    {CUPTI_ACTIVITY_KIND_OVERHEAD, sizeof(CUpti_ActivityOverhead), sizeof(CUpti_ActivityOverhead), 0},
    // The sync id came with CUDA 12.6; 48 and 56 bytes hold it.
    {CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, sizeof(CUpti_ActivitySynchronization), 48, 0},
    {CUPTI_ACTIVITY_KIND_CUDA_EVENT, sizeof(CUpti_ActivityCudaEvent), 56, 0},
    {CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, sizeof(CUpti_ActivityExternalCorrelation),
     sizeof(CUpti_ActivityExternalCorrelation), 0},
    {CUPTI_ACTIVITY_KIND_GRAPH_TRACE, UPTO(CUpti_ActivityGraphTrace, streamId),
     UPTO(CUpti_ActivityGraphTrace, streamId), 0},
};
constexpr size_t kNumKinds = sizeof(kKinds) / sizeof(kKinds[0]);
constexpr uint32_t kKindLimit = 256;  // beyond every kind that CUPTI has

// "New versions append": held against the headers at hand.
#define SAME(old, latest, field) \
  static_assert(offsetof(old, field) == offsetof(latest, field), #latest " moved " #field)
#define SAME_KERNEL(latest)                                                                                     \
  SAME(CUpti_ActivityKernel6, latest, registersPerThread); SAME(CUpti_ActivityKernel6, latest, start);          \
  SAME(CUpti_ActivityKernel6, latest, end); SAME(CUpti_ActivityKernel6, latest, deviceId);                      \
  SAME(CUpti_ActivityKernel6, latest, gridX); SAME(CUpti_ActivityKernel6, latest, dynamicSharedMemory);         \
  SAME(CUpti_ActivityKernel6, latest, correlationId); SAME(CUpti_ActivityKernel6, latest, name);                \
  SAME(CUpti_ActivityKernel6, latest, queued); SAME(CUpti_ActivityKernel6, latest, graphNodeId);                \
  SAME(CUpti_ActivityKernel6, latest, graphId)
#define SAME_COPY(old, latest)                                                                                  \
  SAME(old, latest, bytes); SAME(old, latest, start); SAME(old, latest, end); SAME(old, latest, deviceId);      \
  SAME(old, latest, streamId); SAME(old, latest, correlationId); SAME(old, latest, graphNodeId);                \
  SAME(old, latest, graphId)
#if CUPTI_API_VERSION >= 130500
SAME_KERNEL(CUpti_ActivityKernel13);
SAME_COPY(CUpti_ActivityMemcpy4, CUpti_ActivityMemcpy7);
SAME_COPY(CUpti_ActivityMemcpyPtoP3, CUpti_ActivityMemcpyPtoP4);
SAME_COPY(CUpti_ActivityMemset3, CUpti_ActivityMemset5);
#elif CUPTI_API_VERSION >= 28
SAME_KERNEL(CUpti_ActivityKernel9);
SAME_COPY(CUpti_ActivityMemcpy4, CUpti_ActivityMemcpy6);
SAME_COPY(CUpti_ActivityMemcpyPtoP3, CUpti_ActivityMemcpyPtoP4);
SAME_COPY(CUpti_ActivityMemset3, CUpti_ActivityMemset4);
#endif

// ---------------------------------------------------------------- counts (the order is engine.py's COUNTS)

enum Count {
  kBuffersRequested,  // handed to CUPTI
  kBuffersDenied,     // requests that met a full pool; CUPTI drops records then
  kBuffersCompleted,  // given back with their session still open
  kBuffersLate,       // given back after their session had stopped; not read
  kRecords,           // kept
  kDropped,           // that CUPTI says it dropped
  kOverLimit,         // left out because the stores had reached their limit
  kUnknown,           // of kinds that the engine does not read
  kShort,             // of a layout older than the oldest it reads
  kLostBytes,         // of buffers that could not be walked to their end
  kBytes,             // of valid data in completed buffers
  kErrors,            // calls that CUPTI failed while recording
  kNumCounts
};

struct Chunk {
  uint8_t *data;
  size_t count;
  size_t capacity;
};

constexpr size_t kChunkBytes = size_t{1} << 20;  // so that the decoder finds a chunk in the cache

// Where records go: one list of chunks a kind, and the names.
struct Stores {
  std::mutex lock;
  std::deque<Chunk> chunks[kNumKinds];
  size_t bytes = 0;
  size_t limit = 0;
  std::unordered_map<const char *, uint64_t> by_pointer;
  std::unordered_map<std::string, uint64_t> by_name;
  std::vector<std::string> names;

  void clear() {
    for (auto &list : chunks) {
      for (Chunk &chunk : list) free(chunk.data);
      list.clear();
    }
    bytes = 0;
    by_pointer.clear();
    by_name.clear();
    names.clear();
  }

  // The number of a name, from 1.  An address may come to hold another name once a module was unloaded,
  // so the text is compared on every hit.
  uint64_t intern(const char *name) {
    auto hit = by_pointer.find(name);
    if (hit != by_pointer.end() && names[hit->second - 1] == name) return hit->second;
    auto known = by_name.find(name);
    uint64_t number;
    if (known != by_name.end()) {
      number = known->second;
    } else {
      names.emplace_back(name);
      number = names.size();
      by_name.emplace(name, number);
    }
    by_pointer[name] = number;
    return number;
  }

  bool add(size_t index, const uint8_t *record, size_t size, bool read_names) {
    const Kind &kind = kKinds[index];
    if (bytes + kind.item > limit) return false;
    auto &list = chunks[index];
    if (list.empty() || list.back().count == list.back().capacity) {
      auto *data = static_cast<uint8_t *>(malloc(kChunkBytes));  // pages are touched as they fill
      if (data == nullptr) return false;
      list.push_back({data, 0, kChunkBytes / kind.item});
    }
    Chunk &chunk = list.back();
    uint8_t *to = chunk.data + chunk.count * kind.item;
    if (size >= kind.item) {
      memcpy(to, record, kind.item);
    } else {
      memcpy(to, record, size);
      memset(to + size, 0, kind.item - size);
    }
    if (kind.name_offset != 0) {
      const char *name;
      memcpy(&name, to + kind.name_offset, sizeof name);
      uint64_t number = read_names && name != nullptr ? intern(name) : 0;
      memcpy(to + kind.name_offset, &number, sizeof number);
    }
    chunk.count++;
    bytes += kind.item;
    return true;
  }
};

struct Tally {
  uint64_t n[kNumCounts] = {};
};

int kind_index(uint32_t kind) {
  for (size_t i = 0; i < kNumKinds; i++)
    if (kKinds[i].kind == kind) return static_cast<int>(i);
  return -1;
}

struct KindTable {
  int8_t index[kKindLimit];
  KindTable() {
    for (uint32_t kind = 0; kind < kKindLimit; kind++) index[kind] = static_cast<int8_t>(kind_index(kind));
  }
};

void keep(Stores &stores, Tally &tally, const uint8_t *record, size_t size, bool read_names) {
  static const KindTable table;
  uint32_t kind;
  memcpy(&kind, record, sizeof kind);
  int index = kind < kKindLimit ? table.index[kind] : -1;
  if (index < 0)
    tally.n[kUnknown]++;
  else if (size < kKinds[index].least)
    tally.n[kShort]++;
  else if (stores.add(static_cast<size_t>(index), record, size, read_names))
    tally.n[kRecords]++;
  else
    tally.n[kOverLimit]++;
}

using NextRecord = decltype(&cuptiActivityGetNextRecord);

// Walks a buffer with CUPTI's own iterator, which knows the sizes of its records, newer kinds included.
// What the iterator says is checked: it must move forward, inside the buffer.
void walk_with_cupti(NextRecord next_record, Stores &stores, Tally &tally, uint8_t *data, size_t valid) {
  CUpti_Activity *record = nullptr;
  size_t at = 0;
  bool have = false;
  while (true) {
    CUptiResult status = next_record(data, valid, &record);
    if (status != CUPTI_SUCCESS) {
      if (have) {
        if (status == CUPTI_ERROR_MAX_LIMIT_REACHED) {
          keep(stores, tally, data + at, valid - at, true);
          return;
        }
        tally.n[kLostBytes] += valid - at;
      } else if (valid > 0) {
        tally.n[kLostBytes] += valid;
      }
      if (status != CUPTI_ERROR_MAX_LIMIT_REACHED) tally.n[kErrors]++;
      return;
    }
    auto *here = reinterpret_cast<uint8_t *>(record);
    size_t next = here >= data ? static_cast<size_t>(here - data) : valid;
    if (next >= valid || valid - next < 8 || (have && next <= at) || (!have && next != 0)) {
      tally.n[kLostBytes] += valid - at;
      tally.n[kErrors]++;
      return;
    }
    if (have) keep(stores, tally, data + at, next - at, true);
    at = next;
    have = true;
  }
}

// Walks a buffer by a table of sizes (index: kind; 0: unknown).  A record has no length of its own, so an
// unknown kind ends the walk.
void walk_by_sizes(Stores &stores, Tally &tally, const uint8_t *data, size_t valid, const uint32_t *sizes,
                   size_t num_sizes, bool read_names) {
  size_t at = 0;
  while (valid - at >= 8) {
    uint32_t kind;
    memcpy(&kind, data + at, sizeof kind);
    size_t size = kind < num_sizes ? sizes[kind] : 0;
    if (size < 8) {
      tally.n[kUnknown]++;
      break;
    }
    if (size > valid - at) break;
    keep(stores, tally, data + at, size, read_names);
    at += size;
  }
  tally.n[kLostBytes] += valid - at;
}

}  // namespace

#endif
