// The recorder's Python module: start, take, stop, and the two calls of annotations.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "recorder.h"

namespace {

using profsuite::Session;

// Columns of the rows that are complete, ready to be handed to Python.
struct Taken {
  std::vector<int64_t> ts, dur, sequence, forward_thread;
  std::vector<int32_t> thread, name, inputs, collective;
  std::vector<int8_t> user, async;
  std::vector<std::string> names;
  std::vector<std::string> dims, types, layouts;
  std::vector<profsuite::Collective> collectives;
  std::vector<int64_t> thread_index;
  std::vector<profsuite::Thread> threads;
  int64_t open = 0, overruns = 0, over_limit = 0, shapeless = 0, step_ns = 0, reversed = 0, started_ns = 0, now_ns = 0;
};

void fill(Taken& out, Session& session, profsuite::Rows& rows, bool last) {
  const profsuite::Instant now = profsuite::read_clocks(session.use_counter);
  const profsuite::Epoch epoch(session.started, now);
  out.step_ns = epoch.step_ns();
  out.started_ns = session.started.epoch_ns;
  out.now_ns = epoch.ns(now.ticks);
  std::vector<int8_t> user;
  session.names.visit([&](const profsuite::Name& name) {
    out.names.push_back(name.text);
    user.push_back(name.scope == static_cast<uint8_t>(at::RecordScope::USER_SCOPE) ? 1 : 0);
  });
  const size_t count = rows.size();
  for (auto* column : {&out.ts, &out.dur, &out.sequence, &out.forward_thread}) {
    column->reserve(count);
  }
  for (auto* column : {&out.thread, &out.name, &out.inputs, &out.collective}) {
    column->reserve(count);
  }
  out.user.reserve(count);
  out.async.reserve(count);
  const std::lock_guard<std::mutex> lock(session.collectives_mutex);
  for (size_t i = 0; i < count; ++i) {
    const profsuite::Row& row = rows[i];
    uint64_t end = row.end;
    if (end == 0) {
      if (!last) {
        continue; // comes with the take after its end
      }
      ++out.open;
      end = now.ticks;
    }
    const int64_t ts = epoch.ns(row.start);
    out.ts.push_back(ts);
    out.dur.push_back(std::max<int64_t>(epoch.ns(end) - ts, 0));
    out.sequence.push_back(row.sequence);
    out.forward_thread.push_back(row.forward_thread & profsuite::THREAD_MASK);
    out.async.push_back((row.forward_thread & profsuite::ASYNC) != 0 ? 1 : 0);
    out.thread.push_back(static_cast<int32_t>(row.thread));
    out.name.push_back(static_cast<int32_t>(row.name));
    out.user.push_back(row.name < user.size() ? user[row.name] : 0);
    out.inputs.push_back(static_cast<int32_t>(row.inputs) - 1);
    if (row.collective != 0) {
      out.collective.push_back(static_cast<int32_t>(out.ts.size() - 1));
      out.collectives.push_back(session.collective_rows[row.collective - 1]);
    }
  }
  for (const profsuite::Signature* signature : session.signatures.all()) {
    const profsuite::Unpacker text(signature->words);
    out.dims.push_back(text.dims);
    out.types.push_back(text.types);
    out.layouts.push_back(text.layouts);
  }
}

// Under the recorder's mutex: what the session counted, and its threads.
void tell(Taken& out, profsuite::Recorder& r, Session& session, bool live) {
  out.over_limit = static_cast<int64_t>(session.over_limit);
  uint64_t overruns = session.overruns;
  uint64_t shapeless = session.shapeless;
  if (live) { // those of live threads are added to the session when it stops
    for (const auto& thread : r.threads) {
      if (thread->session.get() == &session) {
        overruns += thread->overruns;
        shapeless += thread->shapeless;
      }
    }
  }
  out.overruns = static_cast<int64_t>(overruns);
  out.shapeless = static_cast<int64_t>(shapeless);
  for (const auto& [index, thread] : session.threads) {
    out.thread_index.push_back(index);
    out.threads.push_back(thread);
  }
}

bool take(Taken& out) {
  profsuite::Recorder& r = profsuite::recorder();
  profsuite::Rows rows;
  std::shared_ptr<Session> session;
  {
    const std::lock_guard<std::mutex> lock(r.mutex);
    if (r.session == nullptr) {
      return false;
    }
    session = r.session;
    profsuite::drain_all(r);
    std::swap(rows, session->rows);
    for (auto& [thread, stack] : session->open) {
      for (profsuite::Open& open : stack) {
        const profsuite::Row& row = rows[open.row];
        open.row = session->rows.size();
        session->rows.push(row);
      }
    }
    tell(out, r, *session, true);
  }
  fill(out, *session, rows, false);
  return true;
}

bool stop(Taken& out) {
  const std::shared_ptr<Session> session = profsuite::stop();
  if (session == nullptr) {
    return false;
  }
  profsuite::Rows rows;
  std::swap(rows, session->rows); // threads hold the session until they meet the next one
  tell(out, profsuite::recorder(), *session, false);
  fill(out, *session, rows, true);
  session->open.clear();
  return true;
}

// ---------------------------------------------------------------- to Python

bool set(PyObject* dict, const char* key, PyObject* value) {
  if (value == nullptr) {
    return false;
  }
  const bool done = PyDict_SetItemString(dict, key, value) == 0;
  Py_DECREF(value);
  return done;
}

template <class T>
bool set(PyObject* dict, const char* key, const std::vector<T>& column) {
  return set(dict, key, PyBytes_FromStringAndSize(reinterpret_cast<const char*>(column.data()),
                                                  static_cast<Py_ssize_t>(column.size() * sizeof(T))));
}

PyObject* text(const std::string& value) {
  return PyUnicode_DecodeUTF8(value.data(), static_cast<Py_ssize_t>(value.size()), "replace");
}

bool set(PyObject* dict, const char* key, const std::vector<std::string>& texts) {
  PyObject* list = PyList_New(static_cast<Py_ssize_t>(texts.size()));
  for (size_t i = 0; list != nullptr && i < texts.size(); ++i) {
    PyObject* item = text(texts[i]);
    if (item == nullptr) {
      Py_CLEAR(list);
      break;
    }
    PyList_SET_ITEM(list, static_cast<Py_ssize_t>(i), item);
  }
  return set(dict, key, list);
}

PyObject* collective_list(const std::vector<profsuite::Collective>& collectives) {
  PyObject* list = PyList_New(0);
  for (const profsuite::Collective& c : collectives) {
    PyObject* item = list == nullptr
        ? nullptr
        : Py_BuildValue("(NNNLLLLLLi)", text(c.group_name), text(c.group_description), text(c.dtype),
                        static_cast<long long>(c.group_size), static_cast<long long>(c.rank),
                        static_cast<long long>(c.sequence), static_cast<long long>(c.in_nelems),
                        static_cast<long long>(c.out_nelems), static_cast<long long>(c.peer), int{c.is_async});
    if (item == nullptr || PyList_Append(list, item) != 0) {
      Py_XDECREF(item);
      Py_CLEAR(list);
      return nullptr;
    }
    Py_DECREF(item);
  }
  return list;
}

PyObject* thread_list(const Taken& taken) {
  PyObject* list = PyList_New(0);
  for (size_t i = 0; list != nullptr && i < taken.threads.size(); ++i) {
    const profsuite::Thread& thread = taken.threads[i];
    PyObject* item = Py_BuildValue("(LlN)", static_cast<long long>(taken.thread_index[i]), thread.tid, text(thread.label));
    if (item == nullptr || PyList_Append(list, item) != 0) {
      Py_CLEAR(list);
    }
    Py_XDECREF(item);
  }
  return list;
}

PyObject* to_python(const Taken& t) {
  PyObject* d = PyDict_New();
  if (d == nullptr) {
    return nullptr;
  }
  const bool done = set(d, "ts", t.ts) && set(d, "dur", t.dur) && set(d, "sequence", t.sequence) &&
      set(d, "forward_thread", t.forward_thread) && set(d, "thread", t.thread) && set(d, "name", t.name) &&
      set(d, "inputs", t.inputs) && set(d, "user", t.user) && set(d, "async", t.async) && set(d, "names", t.names) &&
      set(d, "dims", t.dims) && set(d, "types", t.types) && set(d, "layouts", t.layouts) && set(d, "collective_row", t.collective) &&
      set(d, "collectives", collective_list(t.collectives)) && set(d, "threads", thread_list(t)) &&
      set(d, "open", PyLong_FromLongLong(t.open)) && set(d, "overruns", PyLong_FromLongLong(t.overruns)) &&
      set(d, "over_limit", PyLong_FromLongLong(t.over_limit)) &&
      set(d, "shapeless", PyLong_FromLongLong(t.shapeless)) && set(d, "step_ns", PyLong_FromLongLong(t.step_ns)) &&
      set(d, "started_ns", PyLong_FromLongLong(t.started_ns)) && set(d, "now_ns", PyLong_FromLongLong(t.now_ns));
  if (!done) {
    Py_DECREF(d);
    return nullptr;
  }
  return d;
}

template <bool (*work)(Taken&)>
PyObject* hand_over(PyObject* /*module*/, PyObject* /*unused*/) {
  Taken taken;
  bool ran = false;
  std::string error;
  Py_BEGIN_ALLOW_THREADS;
  try {
    ran = work(taken);
  } catch (const std::exception& e) {
    error = *e.what() != '\0' ? e.what() : "unknown";
  }
  Py_END_ALLOW_THREADS;
  if (!error.empty()) {
    PyErr_SetString(PyExc_RuntimeError, error.c_str());
    return nullptr;
  }
  if (!ran) {
    Py_RETURN_NONE;
  }
  return to_python(taken);
}

PyObject* start(PyObject* /*module*/, PyObject* args) {
  int shapes = 0;
  int collectives = 0;
  int counter = 0;
  Py_ssize_t ring_bytes = 0;
  Py_ssize_t max_rows = 0;
  if (PyArg_ParseTuple(args, "pppnn", &shapes, &collectives, &counter, &ring_bytes, &max_rows) == 0) {
    return nullptr;
  }
  std::string error;
  Py_BEGIN_ALLOW_THREADS;
  try {
    auto session = std::make_shared<Session>();
    session->shapes = shapes != 0;
    session->collectives = collectives != 0;
    session->use_counter = counter != 0 && profsuite::counter_is_invariant();
    session->ring_bytes = 4096;
    while (session->ring_bytes < static_cast<size_t>(ring_bytes)) {
      session->ring_bytes *= 2;
    }
    session->max_rows = static_cast<size_t>(max_rows);
    profsuite::start(session);
  } catch (const std::exception& e) {
    error = *e.what() != '\0' ? e.what() : "unknown";
  }
  Py_END_ALLOW_THREADS;
  if (!error.empty()) {
    PyErr_SetString(PyExc_RuntimeError, error.c_str());
    return nullptr;
  }
  Py_RETURN_NONE;
}

PyObject* read_groups(PyObject* /*module*/, PyObject* /*unused*/) {
  Py_BEGIN_ALLOW_THREADS;
  profsuite::read_groups();
  Py_END_ALLOW_THREADS;
  Py_RETURN_NONE;
}

PyObject* recording(PyObject* /*module*/, PyObject* /*unused*/) {
  return PyBool_FromLong(profsuite::current.load() != nullptr ? 1 : 0);
}

PyObject* clock_name(PyObject* /*module*/, PyObject* /*unused*/) {
  return PyUnicode_FromString(profsuite::counter_is_invariant() ? "counter" : "monotonic");
}

PyObject* push(PyObject* /*module*/, PyObject* name) {
  Py_ssize_t size = 0;
  const char* const utf8 = PyUnicode_AsUTF8AndSize(name, &size);
  if (utf8 == nullptr) {
    return nullptr;
  }
  uint64_t token = 0;
  try {
    token = profsuite::push_annotation(utf8, static_cast<size_t>(size));
  } catch (const std::exception&) {
    token = 0; // no memory for a name: the annotation is lost, the program goes on
  }
  return PyLong_FromUnsignedLongLong(token);
}

PyObject* pop(PyObject* /*module*/, PyObject* token) {
  const uint64_t value = PyLong_AsUnsignedLongLong(token);
  if (PyErr_Occurred() != nullptr) {
    return nullptr;
  }
  profsuite::pop_annotation(value);
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"start", start, METH_VARARGS, "start(shapes, collectives, counter, ring_bytes, max_rows)"},
    {"take", hand_over<take>, METH_NOARGS, "What was recorded since the last take; None if nothing records."},
    {"stop", hand_over<stop>, METH_NOARGS, "Stop, and the rest of what was recorded; None if nothing records."},
    {"read_groups", read_groups, METH_NOARGS, "Look for process groups among the inputs of c10d's ops from now on."},
    {"recording", recording, METH_NOARGS, "Whether a session runs."},
    {"clock", clock_name, METH_NOARGS, "counter or monotonic."},
    {"push", push, METH_O, "Begin an annotation: its token, 0 if nothing records."},
    {"pop", pop, METH_O, "End the annotation of this token."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_recorder", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

} // namespace

PyMODINIT_FUNC PyInit__recorder() {
  pthread_atfork(profsuite::before_fork, profsuite::after_fork_in_parent, profsuite::after_fork_in_child);
  return PyModule_Create(&definition);
}
