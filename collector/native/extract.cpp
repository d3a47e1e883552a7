// From Kineto's result to columns: what window.py hands over as a RawTrace.
//
// What PyTorch itself recorded (ops, annotations, Python calls, allocations) is walked in the event tree, which
// holds values where the exported JSON holds their text.  Equal shapes, types and scalars occur thousands of
// times: each is looked up by its bytes, and its text is made once.  What Kineto recorded (GPU work, runtime
// calls) has its arguments as JSON only; those activities are written as trace events for the reader.
//
// The walk needs no Python object and runs without the GIL.

// torch's headers show what needs Kineto only with this; a torch without it does not link, and is not served.
#ifndef USE_KINETO
#define USE_KINETO
#endif

#include <Python.h>
#include <torch/csrc/autograd/profiler_kineto.h>
#include <torch/csrc/profiler/collection.h>
#include <torch/csrc/profiler/orchestration/observer.h>
#include <torch/csrc/profiler/util.h>
#include <torch/extension.h>

#include <pybind11/numpy.h>

#include <ActivityType.h>
#include <ITraceActivity.h>

#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <deque>
#include <limits>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

namespace py = pybind11;
using namespace torch::profiler::impl;
using torch::autograd::profiler::ProfilerResult;

namespace {

constexpr int64_t kNull = std::numeric_limits<int64_t>::min();

// The process of a host event.  Python frames of a thread on which torch has recorded nothing have
// neither process nor thread; Kineto's JSON gives them to this process all the same.
int64_t process_of(int64_t process) {
  return process ? process : static_cast<int64_t>(getpid());
}

// Strings numbered by first appearance.
struct Pool {
  std::deque<std::string> words;
  std::unordered_map<std::string_view, int32_t> numbers;

  int32_t code(std::string_view text) {
    auto found = numbers.find(text);
    if (found != numbers.end()) {
      return found->second;
    }
    words.emplace_back(text);
    auto number = static_cast<int32_t>(words.size() - 1);
    numbers.emplace(words.back(), number);
    return number;
  }
};

// Codes of a pool by the bytes of the value that a word is the text of.
struct ByValue {
  std::deque<std::string> keys;
  std::unordered_map<std::string_view, int32_t> codes;

  template <typename Text>
  int32_t code(const std::string& key, Pool& pool, const Text& text) {
    auto found = codes.find(key);
    if (found != codes.end()) {
      return found->second;
    }
    int32_t code = pool.code(text());
    keys.emplace_back(key);
    codes.emplace(keys.back(), code);
    return code;
  }
};

template <typename T>
void put(std::string& key, const T& value) {
  key.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void put(std::string& key, const std::vector<int64_t>& values) {
  put(key, static_cast<uint32_t>(values.size()));
  key.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(int64_t));
}

struct Slices {
  std::vector<int64_t> ts, dur, external;
  std::vector<int32_t> track, name, category;
};

struct Ops {
  std::vector<int64_t> sequence, forward_thread, record_function;
  std::vector<int32_t> row, dims, strides, types, concrete, stack, module;
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

class Extractor {
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

  // Activities that PyTorch did not record, as the elements of a traceEvents array.
  void write(const std::vector<const libkineto::ITraceActivity*>& activities, bool all) {
    for (const auto* activity : activities) {
      if (all || !in_tree(activity->type())) {
        write(*activity);
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
  std::string json;
  int64_t num_json = 0;

 private:
  ByValue by_shape_, by_types_, by_concrete_, by_frame_;
  std::unordered_map<uint64_t, int32_t> track_numbers_;
  std::string dims_, strides_, dtypes_, key_;

  static bool in_tree(libkineto::ActivityType type) {
    using libkineto::ActivityType;
    return type == ActivityType::CPU_OP || type == ActivityType::USER_ANNOTATION ||
        type == ActivityType::PYTHON_FUNCTION || type == ActivityType::CPU_INSTANT_EVENT;
  }

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
      return;
    }
    dims_.clear();
    strides_.clear();
    dtypes_.clear();
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
      } else if (const auto* list = std::get_if<std::vector<TensorMetadata>>(&input)) {
        dims_ += 'l';
        put(dims_, static_cast<uint32_t>(list->size()));
        strides_ += 'l';
        put(strides_, static_cast<uint32_t>(list->size()));
        for (const auto& tensor : *list) {
          put(dims_, tensor.sizes_);
          put(strides_, tensor.strides_);
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

  // ---------------------------------------------------------------- Kineto's own activities
  void quote(std::string_view text) {
    json += '"';
    for (char c : text) {
      if (c == '"' || c == '\\') {
        json += '\\';
        json += c;
      } else if (static_cast<unsigned char>(c) < 0x20) {
        char escaped[8];
        std::snprintf(escaped, sizeof(escaped), "\\u%04x", c);
        json += escaped;
      } else {
        json += c;
      }
    }
    json += '"';
  }

  void number(const char* key, int64_t value) {
    json += key;
    json += std::to_string(value);
  }

  void time(const char* key, int64_t ns) {
    char text[48];
    std::snprintf(text, sizeof(text), "%s%" PRId64 ".%03" PRId64, key, ns / 1000, ns % 1000);
    json += text;
  }

  void write(const libkineto::ITraceActivity& activity) {
    using libkineto::ActivityType;
    auto type = activity.type();
    auto resource = activity.resourceId();
    resource = resource == kNull ? 0 : std::abs(resource);
    auto process = type == ActivityType::PYTHON_FUNCTION ? process_of(activity.deviceId()) : activity.deviceId();
    json += json.empty() ? "{" : ",\n{";
    num_json++;
    if (type == ActivityType::CPU_INSTANT_EVENT) {
      json += "\"ph\":\"i\",\"s\":\"t\",\"cat\":";
    } else {
      json += "\"ph\":\"X\",\"cat\":";
    }
    quote(libkineto::toString(type));
    json += ",\"name\":";
    quote(activity.name());
    number(",\"pid\":", process);
    number(",\"tid\":", resource);
    time(",\"ts\":", activity.timestamp());
    if (type != ActivityType::CPU_INSTANT_EVENT) {
      time(",\"dur\":", std::max<int64_t>(activity.duration(), 0));
    }
    json += ",\"args\":{";
    bool first = true;
    auto comma = [&] {
      if (!first) {
        json += ',';
      }
      first = false;
    };
    const auto* linked = activity.linkedActivity();
    int64_t external = linked ? linked->correlationId() : 0;
    bool work = type == ActivityType::GPU_MEMCPY || type == ActivityType::GPU_MEMSET ||
        type == ActivityType::CONCURRENT_KERNEL || type == ActivityType::CUDA_RUNTIME ||
        type == ActivityType::CUDA_DRIVER || type == ActivityType::PRIVATEUSE1_RUNTIME ||
        type == ActivityType::PRIVATEUSE1_DRIVER;
    if (!external && !work) {
      external = activity.correlationId();
    }
    if (external) {
      comma();
      number("\"External id\":", external);
    }
    auto add = [&](const std::string& text) {
      if (!text.empty()) {
        comma();
        json += text;
      }
    };
    add(activity.metadataJson());
    if (type == ActivityType::CONCURRENT_KERNEL && linked && linked->name() == "record_param_comms") {
      add(linked->metadataJson());
    }
    json += "}}";
    if (activity.flowId() > 0) {
      num_json++;
      const char* name = activity.flowType() == 1 ? "fwdbwd" : "ac2g";
      json += activity.flowStart() ? ",\n{\"ph\":\"s\"" : ",\n{\"ph\":\"f\",\"bp\":\"e\"";
      number(",\"id\":", activity.flowId());
      number(",\"pid\":", activity.deviceId());
      number(",\"tid\":", resource);
      time(",\"ts\":", activity.timestamp());
      json += ",\"cat\":\"";
      json += name;
      json += "\",\"name\":\"";
      json += name;
      json += "\"}";
    }
  }
};

template <typename T>
py::array array(std::vector<T>& values) {
  auto* kept = new std::vector<T>(std::move(values));
  py::capsule owner(kept, [](void* data) { delete static_cast<std::vector<T>*>(data); });
  return py::array_t<T>(static_cast<py::ssize_t>(kept->size()), kept->data(), owner);
}

py::list list(const Pool& pool) {
  py::list words;
  for (const auto& word : pool.words) {
    words.append(py::reinterpret_steal<py::object>(
        PyUnicode_DecodeUTF8(word.data(), static_cast<Py_ssize_t>(word.size()), "replace")));
  }
  return words;
}

py::dict extract(ProfilerResult& result, bool all_as_json) {
  Extractor out;
  {
    py::gil_scoped_release free;
    if (!all_as_json) {
      out.walk(result.event_tree());
    }
    if (const auto* activities = result.traceActivities()) {
      out.write(*activities, all_as_json);
    }
  }
  py::dict groups;
  auto group = [&](const char* name, std::vector<std::pair<const char*, py::array>> columns) {
    py::dict values;
    for (auto& [column, data] : columns) {
      values[column] = data;
    }
    groups[name] = values;
  };
  auto &s = out.slices;
  group("slice", {{"ts", array(s.ts)}, {"dur", array(s.dur)}, {"external", array(s.external)},
                  {"track", array(s.track)}, {"name", array(s.name)}, {"category", array(s.category)}});
  auto &o = out.ops;
  group("op", {{"row", array(o.row)}, {"sequence", array(o.sequence)}, {"forward_thread", array(o.forward_thread)},
               {"record_function", array(o.record_function)}, {"dims", array(o.dims)}, {"strides", array(o.strides)},
               {"types", array(o.types)}, {"concrete", array(o.concrete)}, {"stack", array(o.stack)},
               {"module", array(o.module)}});
  auto &c = out.calls;
  group("python", {{"row", array(c.row)}, {"id", array(c.id)}, {"parent", array(c.parent)},
                   {"module", array(c.module)}});
  auto &m = out.memory;
  group("memory", {{"ts", array(m.ts)}, {"track", array(m.track)}, {"device_type", array(m.device_type)},
                   {"device", array(m.device)}, {"address", array(m.address)}, {"bytes", array(m.bytes)},
                   {"allocated", array(m.allocated)}, {"reserved", array(m.reserved)}});
  auto &f = out.flows;
  group("flow", {{"ts", array(f.ts)}, {"id", array(f.id)}, {"track", array(f.track)}, {"name", array(f.name)},
                 {"phase", array(f.phase)}});
  auto &i = out.instants;
  group("instant", {{"ts", array(i.ts)}, {"track", array(i.track)}, {"name", array(i.name)},
                    {"category", array(i.category)}});
  py::dict pools;
  pools["name"] = list(out.names);
  pools["category"] = list(out.categories);
  pools["shape"] = list(out.shapes);
  pools["types"] = list(out.types);
  pools["concrete"] = list(out.concretes);
  pools["stack"] = list(out.stacks);
  pools["module"] = list(out.modules);
  py::dict all;
  all["groups"] = groups;
  all["pools"] = pools;
  all["tracks"] = out.tracks;
  all["meta"] = out.meta;
  all["json"] = py::bytes(out.json);
  all["num_json"] = out.num_json;
  return all;
}

// Ends recording on this thread, and leaves the rest of the stop (most of it) to ``finish`` on another one.
//
// Safe for a session of this thread alone: nothing writes into its buffers once its callback and its state are gone.
// Python's tracer must be stopped where it runs, and a session of all threads has other writers: not for those.
py::capsule detach() {
  auto state = ProfilerStateBase::get(false) ? ProfilerStateBase::pop(false) : nullptr;
  if (!state) {
    throw std::runtime_error("no session of this thread is active");
  }
  state->removeCallback();
  auto* kept = new std::shared_ptr<ProfilerStateBase>(std::move(state));
  return py::capsule(kept, [](void* data) { delete static_cast<std::shared_ptr<ProfilerStateBase>*>(data); });
}

py::object finish(const py::capsule& detached) {
  auto state = *static_cast<std::shared_ptr<ProfilerStateBase>*>(detached.get_pointer());
  std::unique_ptr<ProfilerResult> result;
  {
    py::gil_scoped_release free;
    ProfilerStateBase::push(std::move(state));
    result = torch::autograd::profiler::disableProfiler();
  }
  return py::cast(std::move(result));
}

// Frees the events without the GIL: their destruction takes as long as their extraction.
void release(ProfilerResult& result) {
  using Events = std::vector<torch::autograd::profiler::KinetoEvent>;
  using Tree = std::vector<torch::autograd::profiler::experimental_event_t>;
  Events events;
  Tree tree;
  // The result is not const and is ours alone; only its accessors are.
  std::swap(const_cast<Events&>(result.events()), events);
  std::swap(const_cast<Tree&>(result.event_tree()), tree);
  py::gil_scoped_release free;
  events.clear();
  events.shrink_to_fit();
  tree.clear();
}

} // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("extract", &extract, py::arg("result"), py::arg("all_as_json") = false,
        "Columns, string pools, tracks and the rest as JSON of a _ProfilerResult.");
  m.def("detach", &detach, "Stop recording on this thread; gives what finish takes.");
  m.def("finish", &finish, "The _ProfilerResult of a detached session; on any thread, without the GIL.");
  m.def("release", &release, "Free the events of a _ProfilerResult; it is empty afterwards.");
}
