// From Kineto's result to columns: what window.py hands over as a RawTrace.

// torch's headers show what needs Kineto only with this; a torch without it does not link, and is not served.
#ifndef USE_KINETO
#define USE_KINETO
#endif

#include <Python.h>
#include <torch/csrc/autograd/profiler_kineto.h>
#include <torch/extension.h>

#include <pybind11/numpy.h>

#include "activities.h"
#include "columns.h"
#include "trim.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace py = pybind11;
using torch::autograd::profiler::ProfilerResult;
using torch::profiler::impl::ProfilerStateBase;

namespace {

template <typename T>
py::array array(std::vector<T>& values) {
  auto* kept = new std::vector<T>(std::move(values));
  py::capsule owner(kept, [](void* data) { delete static_cast<std::vector<T>*>(data); });
  return py::array_t<T>(static_cast<py::ssize_t>(kept->size()), kept->data(), owner);
}

py::list list(const profsuite::Pool& pool) {
  py::list words;
  for (const auto& word : pool.words) {
    words.append(py::reinterpret_steal<py::object>(
        PyUnicode_DecodeUTF8(word.data(), static_cast<Py_ssize_t>(word.size()), "replace")));
  }
  return words;
}

using profsuite::EarlyInputs;
using Early = std::shared_ptr<EarlyInputs>;

// Begins to record as torch's own _enable_profiler; gives what ``extract`` takes as ``early``.
//
// Its result has no inputs of ops any more: not for sessions whose JSON is wanted.
py::capsule enable(
    const torch::profiler::impl::ProfilerConfig& config,
    const std::set<torch::profiler::impl::ActivityType>& activities) {
  auto early = std::make_shared<EarlyInputs>();
  torch::autograd::profiler::enableProfilerWithEventPostProcess(
      config, activities, [early](int64_t debug_handle, std::vector<std::string>& jit_stack, std::vector<std::string>&) {
        early->take(debug_handle, jit_stack);
      });
  return py::capsule(new Early(early), [](void* data) { delete static_cast<Early*>(data); });
}

py::dict extract(ProfilerResult& result, bool all_as_json, const py::object& early) {
  auto* inputs = early.is_none() ? nullptr : static_cast<Early*>(early.cast<py::capsule>().get_pointer())->get();
  profsuite::TreeColumns out(inputs);
  profsuite::ActivityJson written;
  {
    py::gil_scoped_release free;
    if (!all_as_json) {
      out.walk(result.event_tree());
    }
    if (const auto* activities = result.traceActivities()) {
      written.write(*activities, all_as_json);
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
               {"types", array(o.types)}, {"concrete", array(o.concrete)}, {"layouts", array(o.layouts)},
               {"stack", array(o.stack)}, {"module", array(o.module)}});
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
  pools["shape"] = list(out.inputs().shapes);
  pools["types"] = list(out.inputs().types);
  pools["concrete"] = list(out.inputs().concretes);
  pools["stack"] = list(out.stacks);
  pools["module"] = list(out.modules);
  py::dict all;
  all["groups"] = groups;
  all["pools"] = pools;
  all["tracks"] = out.tracks;
  all["meta"] = out.meta;
  all["json"] = py::bytes(written.json);
  all["num_json"] = written.num_json;
  return all;
}

// A session whose end has begun on the thread that it recorded.
struct Detached {
  std::shared_ptr<ProfilerStateBase> state;
  std::atomic<bool> over{false};
};

Detached& from(const py::capsule& capsule) {
  return *static_cast<Detached*>(capsule.get_pointer());
}

// Ends the recording of ops on this thread, and leaves the rest of the stop (most of it) to ``finish`` on another one.
//
// Safe for a session of this thread alone: nothing writes into its buffers once its callback and its state are gone.
// A session of all threads has other writers: not for those.
py::capsule detach() {
  auto state = ProfilerStateBase::get(false) ? ProfilerStateBase::pop(false) : nullptr;
  if (!state) {
    throw std::runtime_error("no session of this thread is active");
  }
  state->removeCallback();
  auto* kept = new Detached{std::move(state)};
  return py::capsule(kept, [](void* data) { delete static_cast<Detached*>(data); });
}

py::object finish(const py::capsule& capsule) {
  auto& detached = from(capsule);
  std::unique_ptr<ProfilerResult> result;
  try {
    py::gil_scoped_release free;
    profsuite::Trimmer trimmer;
    ProfilerStateBase::push(std::move(detached.state));
    result = torch::autograd::profiler::disableProfiler();
  } catch (...) {
    detached.over = true;
    throw;
  }
  detached.over = true;
  return py::cast(std::move(result));
}

// Waits until Python's tracer no longer watches this thread, which is the first thing that ``finish`` sees to.
//
// Only then may this thread go on: the calls that it makes would become part of the window.
void wait_untraced(const py::capsule& capsule) {
  const auto& detached = from(capsule);
  const auto* thread = PyThreadState_Get();
  while (thread->c_profilefunc != nullptr && !detached.over) {
    py::gil_scoped_release free;
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

// Both free without the GIL: destruction takes as long as extraction.  The result is not const and is ours alone; only
// its accessors are.
void release_events(ProfilerResult& result) {
  std::vector<torch::autograd::profiler::KinetoEvent> events;
  std::swap(const_cast<decltype(events)&>(result.events()), events);
  py::gil_scoped_release free;
  events.clear();
  events.shrink_to_fit();
}

void release(ProfilerResult& result) {
  release_events(result);
  std::vector<torch::autograd::profiler::experimental_event_t> tree;
  std::swap(const_cast<decltype(tree)&>(result.event_tree()), tree);
  py::gil_scoped_release free;
  tree.clear();
}

void trim() {
  py::gil_scoped_release free;
  profsuite::trim();
}

} // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("enable", &enable, "Start recording; gives where the inputs of ops go, for extract.");
  m.def("extract", &extract, py::arg("result"), py::arg("all_as_json") = false, py::arg("early") = py::none(),
        "Columns, string pools, tracks and the rest as JSON of a _ProfilerResult.");
  m.def("detach", &detach, "Stop recording on this thread; gives what finish takes.");
  m.def("finish", &finish, "The _ProfilerResult of a detached session; on any thread, without the GIL.");
  m.def("wait_untraced", &wait_untraced, "Wait until finish has taken Python's tracer off this thread.");
  m.def("trim", &trim, "Give freed memory back to the system.");
  m.def("release_events", &release_events, "Free the list of events of a _ProfilerResult, which extract does not need.");
  m.def("release", &release, "Free all events of a _ProfilerResult; it is empty afterwards.");
}
