// What PyTorch itself recorded (ops, annotations, Python calls, allocations), as columns.
//
// It is walked in the event tree, which holds values where the exported JSON holds their text.  Equal shapes, types
// and scalars occur thousands of times: each is looked up by its bytes, and its text is made once.
#pragma once

#include "layouts.h"
#include "pools.h"

#include <torch/csrc/profiler/collection.h>
#include <torch/csrc/profiler/orchestration/observer.h>
#include <torch/csrc/profiler/util.h>

#include <ActivityType.h>

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace profsuite {

using namespace torch::profiler::impl;

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
  void walk(const std::vector<std::shared_ptr<Result>>& roots) {
    // Children after their parent; the number of the nearest Python call above goes along.
    struct Item {
      const Result* result;
      int64_t caller;
    };
    std::vector<Item> stack;
    for (auto root = roots.rbegin(); root != roots.rend(); ++root) {
      stack.push_back({root->get(), kNull});
    }
    while (!stack.empty()) {
      auto [result, caller] = stack.back();
      stack.pop_back();
      int64_t inner = take(*result, caller);
      const auto& children = result->children_;
      for (auto child = children.rbegin(); child != children.rend(); ++child) {
        stack.push_back({child->get(), inner});
      }
    }
  }

  Slices slices;
  Ops ops;
  Calls calls;
  Memory memory;
  Flows flows;
  Instants instants;
  Pool names, categories, shapes, types, concretes, stacks, modules;
  std::vector<std::pair<int64_t, int64_t>> tracks;
  std::vector<std::pair<int32_t, std::unordered_map<std::string, std::string>>> meta;

 private:
  ByValue by_shape_, by_types_, by_concrete_, by_frame_;
  std::unordered_map<uint64_t, int32_t> track_numbers_;
  std::string dims_, strides_, dtypes_, key_;

  int32_t track(const Result& result) {
    int64_t process = process_of(result.kineto_info_.device);
    auto device = static_cast<uint32_t>(process);
    auto resource = static_cast<uint32_t>(result.kineto_info_.resource);
    uint64_t key = (static_cast<uint64_t>(device) << 32) | resource;
    auto [found, fresh] = track_numbers_.emplace(key, static_cast<int32_t>(tracks.size()));
    if (fresh) {
      tracks.emplace_back(process, std::abs(static_cast<int64_t>(result.kineto_info_.resource)));
    }
    return found->second;
  }

  int32_t category(libkineto::ActivityType type) {
    return categories.code(libkineto::toString(type));
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
    take_inputs(op);
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

  void take_inputs(const ExtraFields<EventType::TorchOp>& op) {
    if (op.inputs_.empty()) {
      ops.dims.push_back(-1);
      ops.strides.push_back(-1);
      ops.types.push_back(-1);
      ops.concrete.push_back(-1);
      ops.layouts.push_back(-1);
      return;
    }
    dims_.clear();
    strides_.clear();
    dtypes_.clear();
    bool strided = true;
    bool concrete = op.inputs_.size() == op.concrete_inputs_.size();
    for (size_t i = 0; i < op.inputs_.size(); i++) {
      const auto& input = op.inputs_[i];
      if (const auto* tensor = std::get_if<TensorMetadata>(&input)) {
        dims_ += 't';
        put(dims_, tensor->sizes_);
        strides_ += 't';
        put(strides_, tensor->strides_);
        dtypes_ += 't';
        put(dtypes_, tensor->dtype_);
        strided &= tensor->layout_ == c10::Layout::Strided;
      } else if (const auto* list = std::get_if<std::vector<TensorMetadata>>(&input)) {
        dims_ += 'l';
        put(dims_, static_cast<uint32_t>(list->size()));
        strides_ += 'l';
        put(strides_, static_cast<uint32_t>(list->size()));
        for (const auto& tensor : *list) {
          put(dims_, tensor.sizes_);
          put(strides_, tensor.strides_);
          strided &= tensor.layout_ == c10::Layout::Strided;
        }
        dtypes_ += 'l';
      } else {
        dims_ += '-';
        strides_ += '-';
        if (concrete && std::holds_alternative<c10::IValue>(op.concrete_inputs_[i])) {
          dtypes_ += 'c';
        } else {
          dtypes_ += std::holds_alternative<c10::IValue>(input) ? 's' : '-';
        }
      }
    }
    ops.dims.push_back(by_shape_.code(dims_, shapes, [&] { return shape_text(op.inputs_, true); }));
    ops.strides.push_back(by_shape_.code(strides_, shapes, [&] { return shape_text(op.inputs_, false); }));
    ops.types.push_back(by_types_.code(dtypes_, types, [&] { return type_text(op); }));
    ops.concrete.push_back(concrete ? concrete_code(op) : -1);
    ops.layouts.push_back(strided ? -1 : types.code(layout_text(op.inputs_)));
  }

  static std::string layout_text(const std::vector<op_input_t>& inputs) {
    std::string text = "[";
    for (const auto& input : inputs) {
      text += text.size() > 1 ? ", " : "";
      if (const auto* tensor = std::get_if<TensorMetadata>(&input)) {
        text += layout_name(tensor->layout_);
      } else if (const auto* list = std::get_if<std::vector<TensorMetadata>>(&input)) {
        text += '[';
        for (size_t i = 0; i < list->size(); i++) {
          text += i ? ", " : "";
          text += layout_name((*list)[i].layout_);
        }
        text += ']';
      } else {
        text += "null";
      }
    }
    return text + "]";
  }

  static std::string shape_text(const std::vector<op_input_t>& inputs, bool sizes) {
    std::vector<shape> texts(inputs.size());
    for (size_t i = 0; i < inputs.size(); i++) {
      if (const auto* tensor = std::get_if<TensorMetadata>(&inputs[i])) {
        texts[i] = sizes ? tensor->sizes_ : tensor->strides_;
      } else if (const auto* list = std::get_if<std::vector<TensorMetadata>>(&inputs[i])) {
        std::vector<std::vector<int64_t>> each;
        for (const auto& tensor : *list) {
          each.push_back(sizes ? tensor.sizes_ : tensor.strides_);
        }
        texts[i] = std::move(each);
      }
    }
    return variantShapesToStr(texts);
  }

  static std::string type_text(const ExtraFields<EventType::TorchOp>& op) {
    std::vector<std::string> texts(op.inputs_.size());
    bool concrete = op.inputs_.size() == op.concrete_inputs_.size();
    for (size_t i = 0; i < op.inputs_.size(); i++) {
      if (const auto* tensor = std::get_if<TensorMetadata>(&op.inputs_[i])) {
        texts[i] = std::string(c10::scalarTypeToTypeMeta(tensor->dtype_).name());
      } else if (std::holds_alternative<std::vector<TensorMetadata>>(op.inputs_[i])) {
        texts[i] = "TensorList";
      } else if (std::holds_alternative<c10::IValue>(op.inputs_[i])) {
        texts[i] = "Scalar";
      }
      if (concrete && std::holds_alternative<c10::IValue>(op.concrete_inputs_[i])) {
        texts[i] = "ScalarList";
      }
    }
    return strListToStr(texts);
  }

  int32_t concrete_code(const ExtraFields<EventType::TorchOp>& op) {
    key_.clear();
    for (size_t i = 0; i < op.inputs_.size(); i++) {
      const auto* value = std::get_if<c10::IValue>(&op.concrete_inputs_[i]);
      if (!value) {
        value = std::get_if<c10::IValue>(&op.inputs_[i]);
      }
      if (!value || value->isNone()) {
        key_ += '-';
      } else if (value->isInt()) {
        key_ += 'i';
        put(key_, value->toInt());
      } else if (value->isDouble()) {
        key_ += 'd';
        put(key_, value->toDouble());
      } else if (value->isBool()) {
        key_ += value->toBool() ? 'T' : 'F';
      } else if (value->isIntList()) {
        key_ += 'I';
        put(key_, value->toIntVector());
      } else {
        auto text = ivalueToStr(*value, false);
        key_ += 'x';
        put(key_, static_cast<uint32_t>(text.size()));
        key_ += text;
      }
    }
    return by_concrete_.code(key_, concretes, [&] {
      std::vector<c10::IValue> values(op.inputs_.size());
      for (size_t i = 0; i < values.size(); i++) {
        if (const auto* scalar = std::get_if<c10::IValue>(&op.concrete_inputs_[i])) {
          values[i] = *scalar;
        } else if (const auto* other = std::get_if<c10::IValue>(&op.inputs_[i])) {
          values[i] = *other;
        }
      }
      return ivalueListToStr(values);
    });
  }

  template <typename Fields>
  int64_t take_call(const Result& result, const Fields& call, int64_t caller) {
    int64_t module = kNull;
    key_.clear();
    if constexpr (std::is_same_v<Fields, ExtraFields<EventType::PyCall>>) {
      if (call.module_) {
        module = static_cast<int64_t>(call.module_->id_);
        key_ += 'm';
        put(key_, call.module_->cls_.value_of());
        put(key_, module);
      } else {
        // The strings are Python's, held once each while the session lives.
        key_ += 'f';
        put(key_, call.callsite_.filename_.str());
        put(key_, call.callsite_.funcname_.str());
        put(key_, call.callsite_.line_no_);
      }
    } else {
      key_ += 'c';
      put(key_, call.function_name_.str());
    }
    auto name = by_frame_.code(key_, names, [&] { return result.name(); });
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
