// What PyTorch itself recorded (ops, annotations, Python calls, allocations), as columns.
//
// It is walked in the event tree, which holds values where the exported JSON holds their text.
#pragma once

#include "op_inputs.h"
#include "pools.h"

#include <torch/csrc/profiler/collection.h>
#include <torch/csrc/profiler/orchestration/observer.h>
#include <torch/csrc/profiler/util.h>

#include <ActivityType.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace profsuite {

struct Slices {
  std::vector<int64_t> ts, dur, external;
  std::vector<int32_t> track, name, category;
};

struct Ops {
  std::vector<int64_t> sequence, forward_thread, record_function;
  std::vector<int32_t> row, dims, strides, types, concrete, layouts, stack, module;
};

struct Calls {
  std::vector<int64_t> id, parent, module;
  std::vector<int32_t> row;
};

struct Memory {
  std::vector<int64_t> ts, device_type, device, address, bytes, allocated, reserved;
  std::vector<int32_t> track;
};

struct Flows {
  std::vector<int64_t> ts, id;
  std::vector<int32_t> track, name;
  std::vector<int8_t> phase;
};

struct Instants {
  std::vector<int64_t> ts;
  std::vector<int32_t> track, name, category;
};

// The event tree as columns.  The walk needs no Python object and runs without the GIL.
class TreeColumns {
 public:
  // ``early``: where the inputs of the session's ops have gone, null where the ops still have them.
  explicit TreeColumns(EarlyInputs* early = nullptr) : early_(early) {}

  // The pools of the inputs.
  const OpInputs& inputs() const {
    return early_ ? early_->inputs : own_inputs_;
  }

  void walk(const std::vector<std::shared_ptr<Result>>& roots) {
    // Children after their parent; the number of the nearest Python call above goes along.
    struct Item {
      const Result* result;
      int64_t caller;
    };
    std::vector<Item> stack;
    const auto push = [&](const std::vector<std::shared_ptr<Result>>& results, int64_t caller) {
      for (auto result = results.rbegin(); result != results.rend(); ++result) {
        stack.push_back({result->get(), caller});
      }
    };
    push(roots, kNull);
    while (!stack.empty()) {
      const auto [result, caller] = stack.back();
      stack.pop_back();
      const int64_t inner = take(*result, caller);
      push(result->children_, inner);
    }
  }

  Slices slices;
  Ops ops;
  Calls calls;
  Memory memory;
  Flows flows;
  Instants instants;
  Pool names, categories, stacks, modules;
  std::vector<std::pair<int64_t, int64_t>> tracks;
  std::vector<std::pair<int32_t, std::unordered_map<std::string, std::string>>> meta;

 private:
  OpInputs own_inputs_;
  EarlyInputs* early_;
  ByWords<int32_t> by_frame_;
  Words key_;
  std::unordered_map<uint64_t, int32_t> track_numbers_;
  uint64_t last_track_ = 0;
  int32_t last_track_number_ = -1;
  std::array<int32_t, 256> category_numbers_ = filled();

  static std::array<int32_t, 256> filled() {
    std::array<int32_t, 256> numbers{};
    numbers.fill(-1);
    return numbers;
  }

  int32_t track(const Result& result) {
    int64_t process = process_of(result.kineto_info_.device);
    auto device = static_cast<uint32_t>(process);
    auto resource = static_cast<uint32_t>(result.kineto_info_.resource);
    uint64_t key = (static_cast<uint64_t>(device) << 32) | resource;
    if (key == last_track_ && last_track_number_ >= 0) {
      return last_track_number_;
    }
    auto [found, fresh] = track_numbers_.emplace(key, static_cast<int32_t>(tracks.size()));
    if (fresh) {
      tracks.emplace_back(process, std::abs(static_cast<int64_t>(result.kineto_info_.resource)));
    }
    last_track_ = key;
    last_track_number_ = found->second;
    return found->second;
  }

  int32_t category(libkineto::ActivityType type) {
    auto& number = category_numbers_[static_cast<uint8_t>(type)];
    if (number < 0) {
      number = categories.code(libkineto::toString(type));
    }
    return number;
  }

  int32_t add(const Result& result, int32_t name, int64_t end, int64_t external) {
    auto row = static_cast<int32_t>(slices.ts.size());
    slices.ts.push_back(result.start_time_ns_);
    slices.dur.push_back(std::max<int64_t>(end - result.start_time_ns_, 0));
    slices.external.push_back(external);
    slices.track.push_back(track(result));
    slices.name.push_back(name);
    slices.category.push_back(category(result.kinetoType()));
    return row;
  }

  // Takes one result; returns the number of the Python call around its children.
  int64_t take(const Result& result, int64_t caller) {
    return std::visit(
        [&](const auto& fields) -> int64_t {
          using Fields = std::decay_t<decltype(fields)>;
          if constexpr (std::is_same_v<Fields, ExtraFields<EventType::TorchOp>>) {
            take_op(result, fields);
          } else if constexpr (std::is_same_v<Fields, ExtraFields<EventType::PyCall>>) {
            return take_call(result, fields, caller);
          } else if constexpr (std::is_same_v<Fields, ExtraFields<EventType::PyCCall>>) {
            return take_call(result, fields, caller);
          } else if constexpr (std::is_same_v<Fields, ExtraFields<EventType::Allocation>>) {
            take_allocation(result, fields);
          } else if constexpr (std::is_same_v<Fields, ExtraFields<EventType::OutOfMemory>>) {
            instants.ts.push_back(result.start_time_ns_);
            instants.track.push_back(track(result));
            instants.name.push_back(names.code(result.name()));
            instants.category.push_back(category(result.kinetoType()));
          } else if constexpr (!std::is_same_v<Fields, ExtraFields<EventType::Kineto>>) {
            add(result, names.code(result.name()), result.endTimeNS(), kNull);
          }
          return caller;
        },
        result.extra_fields_);
  }

  void take_op(const Result& result, const ExtraFields<EventType::TorchOp>& op) {
    auto external = static_cast<int64_t>(op.correlation_id_);
    auto row = add(result, names.code(op.name_), op.end_time_ns_, external ? external : kNull);
    ops.row.push_back(row);
    bool related = op.sequence_number_ >= 0;
    ops.sequence.push_back(related ? op.sequence_number_ : kNull);
    ops.forward_thread.push_back(related ? static_cast<int64_t>(op.forward_tid_) : kNull);
    ops.record_function.push_back(static_cast<int64_t>(op.record_function_id_));
    const InputCodes codes = early_ ? early_->of(op) : own_inputs_.take(op);
    ops.dims.push_back(codes.dims);
    ops.strides.push_back(codes.strides);
    ops.types.push_back(codes.types);
    ops.concrete.push_back(codes.concrete);
    ops.layouts.push_back(codes.layouts);
    ops.stack.push_back(op.jit_stack_.empty() ? -1 : stacks.code(unquoted(stacksToStr(op.jit_stack_, ";"))));
    ops.module.push_back(op.jit_modules_.empty() ? -1 : modules.code(unquoted(stacksToStr(op.jit_modules_, "."))));
    if (!op.extra_meta_.empty()) {
      meta.emplace_back(row, op.extra_meta_);
    }
    if (op.flow.id > 0) {
      flows.ts.push_back(result.start_time_ns_);
      flows.id.push_back(op.flow.id);
      flows.track.push_back(slices.track.back());
      flows.name.push_back(op.flow.type == 1 ? 0 : 1);
      flows.phase.push_back(op.flow.start ? 's' : 'f');
    }
  }

  template <typename Fields>
  int64_t take_call(const Result& result, const Fields& call, int64_t caller) {
    int64_t module = kNull;
    key_.clear();
    key_.room(4);
    if constexpr (std::is_same_v<Fields, ExtraFields<EventType::PyCall>>) {
      if (call.module_) {
        module = static_cast<int64_t>(call.module_->id_);
        key_.put('m');
        key_.put(reinterpret_cast<uint64_t>(call.module_->cls_.value_of()));
        key_.put(static_cast<uint64_t>(module));
      } else {
        // The strings are Python's, held once each while the session lives.
        key_.put('f');
        key_.put(reinterpret_cast<uint64_t>(call.callsite_.filename_.str()));
        key_.put(reinterpret_cast<uint64_t>(call.callsite_.funcname_.str()));
        key_.put(static_cast<uint64_t>(call.callsite_.line_no_));
      }
    } else {
      key_.put('c');
      key_.put(reinterpret_cast<uint64_t>(call.function_name_.str()));
    }
    auto name = by_frame_.value(key_, [&] { return names.code(result.name()); });
    auto row = add(result, name, call.end_time_ns_, kNull);
    auto id = static_cast<int64_t>(call.id_);
    calls.row.push_back(row);
    calls.id.push_back(id);
    calls.parent.push_back(caller);
    calls.module.push_back(module);
    return id;
  }

  void take_allocation(const Result& result, const ExtraFields<EventType::Allocation>& allocation) {
    memory.ts.push_back(result.start_time_ns_);
    memory.track.push_back(track(result));
    memory.device_type.push_back(static_cast<int64_t>(allocation.device_type_));
    memory.device.push_back(allocation.device_index_);
    memory.address.push_back(static_cast<int64_t>(reinterpret_cast<intptr_t>(allocation.ptr_)));
    memory.bytes.push_back(allocation.alloc_size_);
    memory.allocated.push_back(static_cast<int64_t>(allocation.total_allocated_));
    memory.reserved.push_back(static_cast<int64_t>(allocation.total_reserved_));
  }

  static std::string unquoted(const std::string& text) {
    bool quoted = text.size() >= 2 && text.front() == '"' && text.back() == '"';
    return quoted ? text.substr(1, text.size() - 2) : text;
  }
};

} // namespace profsuite
