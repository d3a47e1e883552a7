/* The Python side: Scanner, Buffer (memory that numpy maps), nest, longest paths. */
#include <errno.h>
#ifdef _WIN32
#include <io.h>
#else
#include <unistd.h>
#endif

static PyTypeObject *BufferType;

typedef struct {
    PyObject_HEAD
    char *data;
    Py_ssize_t size;
} Buffer;

static int buffer_get(PyObject *self, Py_buffer *view, int flags) {
    Buffer *b = (Buffer *)self;
    static char nothing[8];
    return PyBuffer_FillInfo(view, self, b->data ? b->data : nothing, b->size, 0, flags);
}

static void free_object(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

static void buffer_dealloc(PyObject *self) {
    free(((Buffer *)self)->data);
    free_object(self);
}

static PyType_Slot buffer_slots[] = {
    {Py_tp_dealloc, buffer_dealloc},
    {Py_bf_getbuffer, buffer_get},
    {Py_tp_doc, "Memory that the scanner filled; read it through the buffer protocol."},
    {0, NULL},
};
static PyType_Spec buffer_spec = {"profsuite.trace._scanner.Buffer", sizeof(Buffer), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, buffer_slots};

/* A Buffer that owns `data`. */
static PyObject *buffer_new(char *data, size_t size) {
    allocfunc alloc = (allocfunc)PyType_GetSlot(BufferType, Py_tp_alloc);
    Buffer *b = (Buffer *)alloc(BufferType, 0);
    if (!b) {
        free(data);
        return NULL;
    }
    b->data = data;
    b->size = (Py_ssize_t)size;
    return (PyObject *)b;
}

/* ---------------------------------------------------------------- Scanner */
typedef struct {
    PyObject_HEAD
    Driver d;
    int busy; /* a thread works on it without the GIL */
} Scanner;

#define READ_BLOCK (1u << 20)

static int bad_spec(const char *what) {
    PyErr_Format(PyExc_ValueError, "scanner: %s", what);
    return -1;
}

static int build_groups(Tables *t, PyObject *groups) {
    Py_ssize_t n = PyTuple_Size(groups);
    if (n < 0) return -1;
    if (n > MAX_GROUPS || n < G_ARGS) return bad_spec("number of groups");
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *columns = PyTuple_GetItem(groups, i);
        Py_ssize_t m = columns ? PyTuple_Size(columns) : -1;
        if (m < 0) return -1;
        if (m > MAX_COLUMNS) return bad_spec("number of columns");
        if (!add_group(t, (int)m)) return PyErr_NoMemory(), -1;
        for (Py_ssize_t c = 0; c < m; c++) {
            PyObject *column = PyTuple_GetItem(columns, c);
            int kind, pool;
            if (!column || !PyArg_ParseTuple(column, "ii", &kind, &pool)) return -1;
            if (kind < 0 || kind > K_TEXT || pool < 0 || pool >= t->num_pools) return bad_spec("column");
            add_column(t, kind, pool);
        }
    }
    return 0;
}

static int build_args(Tables *t, PyObject *args) {
    Py_ssize_t n = PyTuple_Size(args);
    if (n < 0) return -1;
    if (n > MAX_FIELDS) return bad_spec("number of args");
    for (Py_ssize_t i = 0; i < n; i++) {
        const char *key;
        Py_ssize_t len;
        int group, column, trigger, grid;
        PyObject *item = PyTuple_GetItem(args, i);
        if (!item || !PyArg_ParseTuple(item, "y#iipp", &key, &len, &group, &column, &trigger, &grid)) return -1;
        if (group < 0 || group >= t->num_groups || column < 0 ||
            column + (grid ? 3 : 1) > t->groups[group].num_columns)
            return bad_spec("arg");
        if (!add_arg(t, (const u8 *)key, (size_t)len, group, column, trigger, grid)) return PyErr_NoMemory(), -1;
    }
    return 0;
}

static PyObject *scanner_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"groups", "num_pools", "args", NULL};
    PyObject *groups, *fields;
    int num_pools;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!iO!", names, &PyTuple_Type, &groups, &num_pools, &PyTuple_Type,
                                     &fields))
        return NULL;
    if (num_pools <= P_META_VALUE || num_pools > MAX_POOLS) return bad_spec("number of pools"), NULL;
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Scanner *self = (Scanner *)alloc(type, 0);
    if (!self) return NULL;
    driver_init(&self->d, num_pools);
    if (build_groups(&self->d.t, groups) < 0 || build_args(&self->d.t, fields) < 0) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static void scanner_dealloc(PyObject *object) {
    driver_free(&((Scanner *)object)->d);
    free_object(object);
}

static int enter(Scanner *self) {
    if (self->busy) {
        PyErr_SetString(PyExc_RuntimeError, "scanner is in use by another thread");
        return 0;
    }
    self->busy = 1;
    return 1;
}

static PyObject *leave(Scanner *self, PyObject *result) {
    self->busy = 0;
    if (self->d.t.no_memory) {
        Py_XDECREF(result);
        return PyErr_NoMemory();
    }
    return result;
}

static PyObject *scanner_feed(PyObject *object, PyObject *arg) {
    Scanner *self = (Scanner *)object;
    Driver *d = &self->d;
    Py_buffer view;
    if (PyObject_GetBuffer(arg, &view, PyBUF_SIMPLE) < 0) return NULL;
    if (!enter(self)) {
        PyBuffer_Release(&view);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    const u8 *p = view.buf;
    size_t left = (size_t)view.len;
    while (left && d->stopped < 0) {
        size_t n = left < READ_BLOCK ? left : READ_BLOCK;
        driver_feed(d, p, n);
        if (d->t.no_memory) break;
        p += n;
        left -= n;
    }
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&view);
    return leave(self, Py_NewRef(Py_None));
}

static PyObject *scanner_finish(PyObject *object, PyObject *ignored) {
    Scanner *self = (Scanner *)object;
    Driver *d = &self->d;
    (void)ignored;
    if (!enter(self)) return NULL;
    Py_BEGIN_ALLOW_THREADS
    driver_finish(d);
    Py_END_ALLOW_THREADS
    return leave(self, Py_NewRef(Py_None));
}

static PyObject *scanner_start_at(PyObject *object, PyObject *args) {
    Scanner *self = (Scanner *)object;
    Driver *d = &self->d;
    long long offset, limit;
    int array_form, seek;
    if (!PyArg_ParseTuple(args, "LLpp", &offset, &limit, &array_form, &seek)) return NULL;
    if (!enter(self)) return NULL;
    int fresh = d->len == 0 && offset >= 0;
    if (fresh) driver_start_at(d, offset, limit, array_form, seek);
    else bad_spec("start_at after reading, or before the file");
    return leave(self, fresh ? Py_NewRef(Py_None) : NULL);
}

static PyObject *scanner_resume(PyObject *object, PyObject *args) {
    Scanner *self = (Scanner *)object;
    long long limit;
    if (!PyArg_ParseTuple(args, "L", &limit)) return NULL;
    if (!enter(self)) return NULL;
    driver_resume(&self->d, limit);
    return leave(self, Py_NewRef(Py_None));
}

static long long read_block(int fd, u8 *to, size_t n, int64_t offset) {
    for (;;) {
#ifdef _WIN32
        if (_lseeki64(fd, offset, SEEK_SET) < 0) return -1;
        long long got = _read(fd, to, (unsigned)n);
#else
        long long got = pread(fd, to, n, (off_t)offset);
#endif
        if (got >= 0 || errno != EINTR) return got;
    }
}

static PyObject *scanner_read(PyObject *object, PyObject *args) {
    Scanner *self = (Scanner *)object;
    Driver *d = &self->d;
    int fd, failed = 0;
    long long max_rows, until;
    if (!PyArg_ParseTuple(args, "iLL", &fd, &max_rows, &until)) return NULL;
    if (!enter(self)) return NULL;
    Py_BEGIN_ALLOW_THREADS
    if (d->stopped < 0 && d->len > d->pos) run(d); /* after a resume */
    while (d->stopped < 0 && !d->eof && !d->t.no_memory) {
        if ((long long)d->t.groups[G_SLICE].rows >= max_rows) break;
        if (until >= 0 && d->read_at >= until) break;
        if (!make_room(d, READ_BLOCK)) break;
        long long got = read_block(fd, d->buf + d->len, READ_BLOCK, d->read_at);
        if (got < 0) {
            failed = errno;
            break;
        }
        if (got == 0) d->eof = 1;
        d->read_at += got;
        received(d, (size_t)got);
    }
    Py_END_ALLOW_THREADS
    if (failed) {
        self->busy = 0;
        errno = failed;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    return leave(self, PyBool_FromLong(d->stopped >= 0 || d->eof));
}

static PyObject *scanner_take(PyObject *object, PyObject *ignored) {
    Scanner *self = (Scanner *)object;
    Tables *t = &self->d.t;
    (void)ignored;
    if (!enter(self)) return NULL;
    PyObject *groups = PyTuple_New(t->num_groups);
    for (int i = 0; groups && i < t->num_groups; i++) {
        Group *g = &t->groups[i];
        PyObject *columns = PyTuple_New(g->num_columns);
        for (int c = 0; columns && c < g->num_columns; c++) {
            char *data = g->columns[c].data;
            g->columns[c].data = NULL;
            PyObject *buffer = buffer_new(data, g->rows * g->columns[c].width);
            if (!buffer || PyTuple_SetItem(columns, c, buffer) < 0) Py_CLEAR(columns);
        }
        g->rows = g->cap = 0;
        if (!columns || PyTuple_SetItem(groups, i, columns) < 0) Py_CLEAR(groups);
    }
    return leave(self, groups);
}

/* Append the rows of `from` to `to`, with codes and tracks in new numbers; frees the columns of `from`. */
static int absorb_rows(Tables *to, Tables *from, const int32_t *const *codes, const int32_t *tracks) {
    int32_t first_row = (int32_t)to->slices;
    for (int i = 0; i < to->num_groups; i++) {
        Group *a = &to->groups[i], *b = &from->groups[i];
        size_t rows = a->rows + b->rows;
        for (int c = 0; c < a->num_columns; c++) {
            size_t width = a->columns[c].width;
            char *data = realloc(a->columns[c].data, (rows + 1) * width);
            if (!data) return 0;
            a->columns[c].data = data;
            const int32_t *table = NULL;
            if (to->column_kind[i][c] == K_TEXT) table = codes[to->column_pool[i][c]];
            else if (to->column_kind[i][c] == K_TRACK) table = tracks;
            int32_t *out = (int32_t *)(data + a->rows * width);
            const int32_t *in = (const int32_t *)b->columns[c].data;
            if (table) {
                for (size_t r = 0; r < b->rows; r++) out[r] = in[r] < 0 ? in[r] : table[in[r]];
            } else if (to->column_kind[i][c] == K_ROW) {
                for (size_t r = 0; r < b->rows; r++) out[r] = in[r] + first_row;
            } else if (b->rows) {
                memcpy(out, in, b->rows * width);
            }
            free(b->columns[c].data);
            b->columns[c].data = NULL;
        }
        a->rows = rows;
        a->cap = rows + 1;
        b->rows = b->cap = 0;
    }
    to->slices += from->slices;
    from->slices = 0;
    return 1;
}

static PyObject *scanner_absorb(PyObject *object, PyObject *args) {
    Scanner *self = (Scanner *)object, *other;
    PyObject *other_object, *tables;
    Py_buffer views[MAX_POOLS + 1];
    const int32_t *codes[MAX_POOLS + 1];
    int n = 0, good = 0;
    if (!PyArg_ParseTuple(args, "O!O!", Py_TYPE(object), &other_object, &PyTuple_Type, &tables)) return NULL;
    other = (Scanner *)other_object;
    Tables *t = &self->d.t;
    if (other == self || PyTuple_Size(tables) != t->num_pools + 1) return bad_spec("absorb"), NULL;
    for (; n <= t->num_pools; n++) {
        PyObject *item = PyTuple_GetItem(tables, n);
        size_t count = n < t->num_pools ? other->d.t.pools[n].count : other->d.t.tracks.count;
        codes[n] = NULL;
        memset(&views[n], 0, sizeof views[n]);
        if (item == Py_None) continue; /* the numbers are the same */
        if (PyObject_GetBuffer(item, &views[n], PyBUF_SIMPLE) < 0) break;
        if ((size_t)views[n].len < count * 4) {
            bad_spec("absorb: a table is too short");
            n++;
            break;
        }
        codes[n] = views[n].buf;
    }
    if (n == t->num_pools + 1 && !PyErr_Occurred() && enter(self)) {
        if (enter(other)) {
            Py_BEGIN_ALLOW_THREADS
            good = absorb_rows(t, &other->d.t, codes, codes[t->num_pools]);
            Py_END_ALLOW_THREADS
            other->busy = 0;
            if (!good) PyErr_NoMemory();
        }
        self->busy = 0;
    }
    for (int i = 0; i < n; i++) PyBuffer_Release(&views[i]);
    return good ? Py_NewRef(Py_None) : NULL;
}

/* (int64 offsets, bytes) of the strings from number `start` on. */
static PyObject *pool_strings(Pool *pool, long long start) {
    size_t first = start < 0 || (size_t)start > pool->count ? pool->count : (size_t)start;
    size_t n = pool->count - first;
    int64_t *offsets = malloc((n + 1) * sizeof *offsets);
    if (!offsets) return PyErr_NoMemory();
    size_t from = pool->count ? pool->offsets[first] : 0;
    offsets[0] = 0;
    for (size_t i = 0; i < n; i++) offsets[i + 1] = (int64_t)(pool->offsets[first + i + 1] - from);
    PyObject *o = buffer_new((char *)offsets, (n + 1) * sizeof *offsets);
    if (!o) return NULL;
    PyObject *data = PyBytes_FromStringAndSize((const char *)pool->data + from, (Py_ssize_t)(pool->size - from));
    if (!data) {
        Py_DECREF(o);
        return NULL;
    }
    return Py_BuildValue("NN", o, data);
}

static PyObject *scanner_strings(PyObject *object, PyObject *args) {
    Scanner *self = (Scanner *)object;
    int pool;
    long long start;
    if (!PyArg_ParseTuple(args, "iL", &pool, &start)) return NULL;
    if (pool < -1 || pool >= self->d.t.num_pools) return bad_spec("pool"), NULL;
    if (!enter(self)) return NULL;
    return leave(self, pool_strings(pool < 0 ? &self->d.t.tracks : &self->d.t.pools[pool], start));
}

static PyObject *scanner_header(PyObject *object, PyObject *ignored) {
    Driver *d = &((Scanner *)object)->d;
    (void)ignored;
    if (!enter((Scanner *)object)) return NULL;
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < d->num_header; i++) {
        HeaderItem *h = &d->header[i];
        PyObject *item = Py_BuildValue("y#y#", h->key, (Py_ssize_t)h->key_len, h->value, (Py_ssize_t)h->value_len);
        if (!item || PyList_Append(list, item) < 0) Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return leave((Scanner *)object, list);
}

static PyObject *scanner_remarks(PyObject *object, PyObject *ignored) {
    Tables *t = &((Scanner *)object)->d.t;
    (void)ignored;
    PyObject *counts = PyTuple_New(NUM_REMARKS), *phases = PyDict_New();
    for (int i = 0; counts && i < NUM_REMARKS; i++) {
        PyObject *item = Py_BuildValue("LL", (long long)t->remarks[i].count, (long long)t->remarks[i].first);
        if (!item || PyTuple_SetItem(counts, i, item) < 0) Py_CLEAR(counts);
    }
    for (int i = 0; counts && phases && i < 256; i++) {
        if (!t->unsupported[i]) continue;
        PyObject *key = PyLong_FromLong(i), *value = PyLong_FromLongLong(t->unsupported[i]);
        if (!key || !value || PyDict_SetItem(phases, key, value) < 0) Py_CLEAR(counts);
        Py_XDECREF(key);
        Py_XDECREF(value);
    }
    if (!counts || !phases) {
        Py_XDECREF(counts);
        Py_XDECREF(phases);
        return NULL;
    }
    return Py_BuildValue("NN", counts, phases);
}

enum { A_POSITION, A_STOPPED, A_STARTED, A_EVENTS, A_ROWS, A_NUM_BYTES };

static PyObject *scanner_get(PyObject *object, void *closure) {
    Driver *d = &((Scanner *)object)->d;
    long long x = 0;
    switch ((int)(intptr_t)closure) {
    case A_POSITION: x = d->position; break;
    case A_STOPPED: x = d->stopped; break;
    case A_STARTED: x = d->started; break;
    case A_EVENTS: x = d->t.num_events; break;
    case A_ROWS: x = (long long)d->t.groups[G_SLICE].rows; break;
    case A_NUM_BYTES: x = d->base + (long long)d->len; break;
    default: break;
    }
    return PyLong_FromLongLong(x);
}

enum { B_EVENTS_SEEN, B_ARRAY_FORM, B_CLEAN_STOP, B_IN_EVENTS };

static PyObject *scanner_is(PyObject *object, void *closure) {
    Driver *d = &((Scanner *)object)->d;
    int x = 0;
    switch ((int)(intptr_t)closure) {
    case B_EVENTS_SEEN: x = d->events_seen; break;
    case B_ARRAY_FORM: x = d->array_form; break;
    case B_CLEAN_STOP: x = d->stopped >= 0 && (d->comma || !d->after_event); break;
    case B_IN_EVENTS: x = d->mode == M_EVENTS; break;
    default: break;
    }
    return PyBool_FromLong(x);
}

static PyObject *scanner_error(PyObject *object, void *ignored) {
    Driver *d = &((Scanner *)object)->d;
    (void)ignored;
    return d->error ? PyUnicode_FromString(d->error) : Py_NewRef(Py_None);
}

static PyMethodDef scanner_methods[] = {
    {"feed", scanner_feed, METH_O, "feed(data): read the next bytes of the file."},
    {"finish", scanner_finish, METH_NOARGS, "finish(): the file has ended."},
    {"start_at", scanner_start_at, METH_VARARGS,
     "start_at(offset, limit, array_form, seek): begin among the events; with seek, at the next event found."},
    {"resume", scanner_resume, METH_VARARGS, "resume(limit): go on after a stop, up to another limit (-1: none)."},
    {"read", scanner_read, METH_VARARGS,
     "read(fd, max_rows, until) -> bool: read on; True when done (limit or end of file reached)."},
    {"take", scanner_take, METH_NOARGS, "take() -> a tuple of Buffers a group: the rows since the last take."},
    {"absorb", scanner_absorb, METH_VARARGS,
     "absorb(other, tables): append other's rows; an int32 table of new codes a pool and one for tracks, or None."},
    {"strings", scanner_strings, METH_VARARGS,
     "strings(pool, start) -> (offsets, bytes): a pool's strings from a number on; pool -1: tracks, pid 0xFF tid."},
    {"header", scanner_header, METH_NOARGS, "header() -> list of (key, raw value) bytes."},
    {"remarks", scanner_remarks, METH_NOARGS, "remarks() -> ((count, first offset), ...), {phase: count}."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef scanner_getset[] = {
    {"position", scanner_get, NULL, "Bytes worked off.", (void *)A_POSITION},
    {"stopped", scanner_get, NULL, "Offset of the event it stopped before, -1.", (void *)A_STOPPED},
    {"started", scanner_get, NULL, "Offset of the event that seeking found, -1.", (void *)A_STARTED},
    {"num_events", scanner_get, NULL, "Events met.", (void *)A_EVENTS},
    {"num_rows", scanner_get, NULL, "Slices not yet taken.", (void *)A_ROWS},
    {"num_bytes", scanner_get, NULL, "Bytes received.", (void *)A_NUM_BYTES},
    {"events_seen", scanner_is, NULL, "Whether there were events at all.", (void *)B_EVENTS_SEEN},
    {"array_form", scanner_is, NULL, "Whether the top level is an array.", (void *)B_ARRAY_FORM},
    {"clean_stop", scanner_is, NULL, "Whether it stopped right after a comma.", (void *)B_CLEAN_STOP},
    {"in_events", scanner_is, NULL, "Whether it is among the events.", (void *)B_IN_EVENTS},
    {"error", scanner_error, NULL, "Why this is no trace: 'empty', 'not json', None.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot scanner_slots[] = {
    {Py_tp_new, scanner_new},       {Py_tp_dealloc, scanner_dealloc}, {Py_tp_methods, scanner_methods},
    {Py_tp_getset, scanner_getset}, {Py_tp_doc, "Scanner(groups, num_pools, args): see readers/native.py."},
    {0, NULL},
};
static PyType_Spec scanner_spec = {"profsuite.trace._scanner.Scanner", sizeof(Scanner), 0, Py_TPFLAGS_DEFAULT,
                                   scanner_slots};

/* ---------------------------------------------------------------- nest */
static PyObject *py_nest(PyObject *module, PyObject *args) {
    Py_buffer track = {0}, ts = {0}, dur = {0}, leaf = {0};
    PyObject *result = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*y*y*y*", &track, &ts, &dur, &leaf)) return NULL;
    size_t n = (size_t)leaf.len;
    int32_t *parent = NULL, *depth = NULL;
    int64_t *self = NULL;
    if (track.len != (Py_ssize_t)(4 * n) || ts.len != (Py_ssize_t)(8 * n) || dur.len != ts.len || n > INT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "nest(track int32, ts int64, dur int64, leaf uint8): lengths differ");
        goto end;
    }
    for (size_t i = 0; i < n; i++)
        if (((const int32_t *)track.buf)[i] < 0) {
            PyErr_SetString(PyExc_ValueError, "nest: a negative track");
            goto end;
        }
    parent = malloc((n + 1) * sizeof *parent);
    depth = malloc((n + 1) * sizeof *depth);
    self = malloc((n + 1) * sizeof *self);
    int good = parent && depth && self;
    if (good) {
        Py_BEGIN_ALLOW_THREADS
        good = nest_all(n, track.buf, ts.buf, dur.buf, leaf.buf, parent, depth, self);
        Py_END_ALLOW_THREADS
    }
    if (!good) {
        free(parent);
        free(depth);
        free(self);
        PyErr_NoMemory();
        goto end;
    }
    PyObject *a = buffer_new((char *)parent, n * sizeof *parent);
    PyObject *b = buffer_new((char *)depth, n * sizeof *depth);
    PyObject *c = buffer_new((char *)self, n * sizeof *self);
    if (a && b && c) {
        result = PyTuple_Pack(3, a, b, c);
    }
    Py_XDECREF(a);
    Py_XDECREF(b);
    Py_XDECREF(c);
end:
    PyBuffer_Release(&track);
    PyBuffer_Release(&ts);
    PyBuffer_Release(&dur);
    PyBuffer_Release(&leaf);
    return result;
}

/* ---------------------------------------------------------------- longest paths */
/* Buffers of a graph: first, source, weight, own, and for dag_latest the bounds. */
static int dag_buffers(PyObject *args, int with_bound, Py_buffer *b) {
    if (with_bound ? !PyArg_ParseTuple(args, "y*y*y*y*y*", b, b + 1, b + 2, b + 3, b + 4)
                   : !PyArg_ParseTuple(args, "y*y*y*y*", b, b + 1, b + 2, b + 3))
        return 0;
    size_t n = (size_t)b[3].len / 8, m = (size_t)b[1].len / 4;
    const int64_t *first = b[0].buf;
    const int32_t *source = b[1].buf;
    int good = (size_t)b[0].len == 8 * (n + 1) && (size_t)b[2].len == 8 * m && n <= INT32_MAX &&
               (!with_bound || b[4].len == b[3].len) && first[0] == 0 && (size_t)first[n] == m;
    for (size_t i = 0; good && i < n; i++) {
        good = first[i + 1] >= first[i] && (size_t)first[i + 1] <= m;
        for (int64_t e = first[i]; good && e < first[i + 1]; e++) good = source[e] >= 0 && (size_t)source[e] < i;
    }
    if (!good) PyErr_SetString(PyExc_ValueError, "no graph, or an edge that does not come from an earlier node");
    return good;
}

static PyObject *py_dag_earliest(PyObject *module, PyObject *args) {
    Py_buffer b[5] = {{0}};
    PyObject *result = NULL;
    (void)module;
    if (!dag_buffers(args, 0, b)) goto end;
    size_t n = (size_t)b[3].len / 8;
    int64_t *finish = malloc((n + 1) * sizeof *finish), *binding = malloc((n + 1) * sizeof *binding);
    if (!finish || !binding) {
        free(finish);
        free(binding);
        PyErr_NoMemory();
        goto end;
    }
    Py_BEGIN_ALLOW_THREADS
    dag_earliest(n, b[0].buf, b[1].buf, b[2].buf, b[3].buf, finish, binding);
    Py_END_ALLOW_THREADS
    PyObject *x = buffer_new((char *)finish, n * sizeof *finish);
    PyObject *y = buffer_new((char *)binding, n * sizeof *binding);
    if (x && y) result = PyTuple_Pack(2, x, y);
    Py_XDECREF(x);
    Py_XDECREF(y);
end:
    for (int i = 0; i < 5; i++) PyBuffer_Release(b + i);
    return result;
}

static PyObject *py_dag_latest(PyObject *module, PyObject *args) {
    Py_buffer b[5] = {{0}};
    PyObject *result = NULL;
    (void)module;
    if (!dag_buffers(args, 1, b)) goto end;
    size_t n = (size_t)b[3].len / 8;
    int64_t *finish = malloc((n + 1) * sizeof *finish);
    if (!finish) {
        PyErr_NoMemory();
        goto end;
    }
    memcpy(finish, b[4].buf, n * sizeof *finish);
    Py_BEGIN_ALLOW_THREADS
    dag_latest(n, b[0].buf, b[1].buf, b[2].buf, b[3].buf, finish);
    Py_END_ALLOW_THREADS
    result = buffer_new((char *)finish, n * sizeof *finish);
end:
    for (int i = 0; i < 5; i++) PyBuffer_Release(b + i);
    return result;
}

static PyObject *py_dag_path(PyObject *module, PyObject *args) {
    Py_buffer b[3] = {{0}};
    PyObject *result = NULL;
    long long begin, end;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*y*y*LL", b, b + 1, b + 2, &begin, &end)) goto end;
    const int32_t *source = b[0].buf;
    const int64_t *binding = b[1].buf;
    size_t n = (size_t)b[1].len / 8;
    int64_t m = (int64_t)(b[0].len / 4);
    int good = b[2].len == b[1].len && end >= 0 && (size_t)end < n;
    for (size_t i = 0; good && i < n; i++) {
        int64_t edge = binding[i];
        good = edge < m && (edge < 0 || (source[edge] >= 0 && (size_t)source[edge] < i));
    }
    if (!good) {
        PyErr_SetString(PyExc_ValueError, "no path in a graph");
        goto end;
    }
    size_t count = dag_path(source, binding, b[2].buf, begin, end, NULL);
    int64_t *nodes = malloc(count * sizeof *nodes);
    if (!nodes) {
        PyErr_NoMemory();
        goto end;
    }
    dag_path(source, binding, b[2].buf, begin, end, nodes);
    result = buffer_new((char *)nodes, count * sizeof *nodes);
end:
    for (int i = 0; i < 3; i++) PyBuffer_Release(b + i);
    return result;
}

/* ---------------------------------------------------------------- rows of an export */
/* One part from its tuple (op, separator, prefix, data, index, skip, bounds, text); buffers go to `views`. */
static int row_part(PyObject *item, RowPart *part, size_t stop, Py_buffer *views, int *num_views) {
    PyObject *data, *index, *bounds, *text;
    Py_ssize_t prefix_size;
    if (!PyTuple_Check(item) ||
        !PyArg_ParseTuple(item, "iiy#OOiOO", &part->op, &part->separator, &part->prefix, &prefix_size, &data, &index,
                          &part->skip, &bounds, &text))
        return 0;
    part->prefix_size = (size_t)prefix_size;
    PyObject *given[4] = {data, index, bounds, text};
    const void *at[4] = {NULL, NULL, NULL, NULL};
    size_t size[4] = {0, 0, 0, 0};
    for (int i = 0; i < 4; i++) {
        if (given[i] == Py_None) continue;
        if (PyObject_GetBuffer(given[i], &views[*num_views], PyBUF_SIMPLE) < 0) return 0;
        at[i] = views[*num_views].buf ? views[*num_views].buf : "";
        size[i] = (size_t)views[*num_views].len;
        ++*num_views;
    }
    int takes = part->op >= ROW_INT && part->op <= ROW_SIZED;
    size_t width = part->op == ROW_WORD ? 4 : part->op == ROW_WHEN ? 1 : 8;
    part->data = at[0];
    part->size = size[0] / width;
    part->index = at[1];
    part->bounds = at[2];
    part->num_words = size[2] / 8 ? size[2] / 8 - 1 : 0;
    part->text = at[3];
    part->text_size = size[3];
    int good = part->op >= 0 && part->op < ROW_OPS && part->skip >= 0 && takes == (at[0] != NULL) &&
               (!at[1] || size[1] / 4 >= stop) && (part->op != ROW_WORD || (at[2] && at[3]));
    if (!good) PyErr_SetString(PyExc_ValueError, "rows: a part is not as it should be");
    return good;
}

static PyObject *py_rows(PyObject *module, PyObject *args) {
    Py_ssize_t first, stop;
    PyObject *list, *result = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "nnO", &first, &stop, &list)) return NULL;
    Py_ssize_t num = PyList_Check(list) ? PyList_Size(list) : -1;
    if (num < 0 || first < 0 || stop < first) {
        PyErr_SetString(PyExc_ValueError, "rows(first, stop, list of parts)");
        return NULL;
    }
    RowPart *parts = calloc((size_t)num + 1, sizeof *parts);
    Py_buffer *views = calloc(4 * (size_t)num + 1, sizeof *views);
    RowText out = {malloc(1 << 16), 0, 1 << 16};
    int num_views = 0, good = 1;
    if (!parts || !views || !out.data) {
        PyErr_NoMemory();
        goto end;
    }
    for (Py_ssize_t i = 0; i < num; i++)
        if (!row_part(PyList_GetItem(list, i), parts + i, (size_t)stop, views, &num_views)) goto end;
    rows_alike(parts, (size_t)num);
    Py_BEGIN_ALLOW_THREADS
    good = rows_write((size_t)first, (size_t)stop, parts, (size_t)num, &out);
    Py_END_ALLOW_THREADS
    if (good > 0) {
        char *fitting = realloc(out.data, out.size + 1);
        result = buffer_new(fitting ? fitting : out.data, out.size);
        out.data = NULL;
    } else if (!good) {
        PyErr_NoMemory();
    } else {
        PyErr_SetString(PyExc_ValueError, "rows: an index or a code out of range, or wrong nesting");
    }
end:
    for (int i = 0; i < num_views; i++) PyBuffer_Release(views + i);
    free(views);
    free(parts);
    free(out.data);
    return result;
}

static PyObject *py_lanes(PyObject *module, PyObject *args) {
    Py_buffer b[4] = {{0}};
    PyObject *result = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*y*y*y*", b, b + 1, b + 2, b + 3)) return NULL;
    size_t n = (size_t)b[0].len / 8;
    int good = (size_t)b[1].len == 4 * n && b[2].len == b[0].len && b[3].len == b[0].len;
    for (size_t i = 0; good && i < n; i++) good = (uint64_t)((const int64_t *)b[0].buf)[i] < n;
    int32_t *lane = calloc(n + 1, sizeof *lane);
    if (!good) {
        PyErr_SetString(PyExc_ValueError, "lanes(order int64, track int32, ts int64, dur int64)");
    } else if (lane) {
        Py_BEGIN_ALLOW_THREADS
        good = lanes_find(n, b[0].buf, b[1].buf, b[2].buf, b[3].buf, lane);
        Py_END_ALLOW_THREADS
        if (good) {
            result = buffer_new((char *)lane, n * sizeof *lane);
            lane = NULL;
        }
    }
    if (!result && !PyErr_Occurred()) PyErr_NoMemory();
    free(lane);
    for (int i = 0; i < 4; i++) PyBuffer_Release(b + i);
    return result;
}

/* ---------------------------------------------------------------- memory snapshots */
static PyObject *vec_buffer(Vec *v, size_t width) {
    char *data = v->data;
    size_t size = v->n * width;
    char *fitting = data ? realloc(data, size + 1) : NULL;
    memset(v, 0, sizeof *v);
    return buffer_new(fitting ? fitting : data, size);
}

/* A number or a text; None for anything else. */
static PyObject *word_object(Unpickler *u, Word w) {
    double number;
    int64_t value;
    switch (W_TAG(w)) {
    case W_BOOL: return PyBool_FromLong((long)W_ID(w));
    case W_INT: case W_BIG:
        sn_as_int(u, w, &value);
        return PyLong_FromLongLong(value);
    case W_HUGE: {
        const int64_t *parts = &VEC(u->large, int64_t)[W_ID(w)];
        PyObject *low = PyLong_FromUnsignedLongLong((unsigned long long)parts[0]), *high = PyLong_FromLongLong(parts[1]);
        PyObject *bits = PyLong_FromLong(64), *shifted = high && bits ? PyNumber_Lshift(high, bits) : NULL;
        PyObject *sum = low && shifted ? PyNumber_Add(low, shifted) : NULL;
        Py_XDECREF(low);
        Py_XDECREF(high);
        Py_XDECREF(bits);
        Py_XDECREF(shifted);
        return sum;
    }
    case W_FLOAT:
        memcpy(&number, &VEC(u->large, int64_t)[W_ID(w)], sizeof number);
        return PyFloat_FromDouble(number);
    case W_TEXT: {
        size_t start = u->texts.offsets[W_ID(w)];
        return PyUnicode_DecodeUTF8((const char *)u->texts.data + start,
                                    (Py_ssize_t)(u->texts.offsets[W_ID(w) + 1] - start), "replace");
    }
    default: return Py_NewRef(Py_None);
    }
}

/* The value of a key of the dict that a snapshot is; 0 if it has none. */
static Word snapshot_item(Unpickler *u, int key) {
    Word found = 0;
    if (!u->stack.n) return 0;
    Word top = VEC(u->stack, Word)[0];
    if (key == SK_SEGMENTS && (W_TAG(top) == W_LIST || W_TAG(top) == W_EMPTY)) return top; /* the segments alone */
    const Container *c = W_TAG(top) == W_DICT ? sn_container(u, top) : NULL;
    for (size_t i = 0; c && i < c->items.n; i += 2)
        if (VEC(c->items, Word)[i] == W_MAKE(W_TEXT, key)) found = VEC(c->items, Word)[i + 1];
    return found;
}

/* Append (first row, end) of each of n lists, None where it has no rows. */
static int append_rows_of(Unpickler *u, PyObject *list, const Word *items, size_t n) {
    int good = 1;
    for (size_t i = 0; good && i < n; i++) {
        const Container *c = W_TAG(items[i]) == W_LIST ? sn_container(u, items[i]) : NULL;
        PyObject *pair = c && c->end >= 0 ? Py_BuildValue("LL", (long long)c->first, (long long)c->end)
                                          : Py_NewRef(Py_None);
        good = pair && PyList_Append(list, pair) == 0;
        Py_XDECREF(pair);
    }
    return good;
}

/* The rows of each list of the history. */
static PyObject *snapshot_traces(Unpickler *u) {
    Word w = snapshot_item(u, SK_DEVICE_TRACES);
    const Container *c = W_TAG(w) == W_LIST ? sn_container(u, w) : NULL;
    PyObject *list = PyList_New(0);
    if (list && c && !append_rows_of(u, list, VEC(c->items, Word), c->items.n)) Py_CLEAR(list);
    return list;
}

/* Of a pickle that breaks off: the rows of the lists of the history that are whole; NULL without an error where the
 * segments are not, or nothing of the history is known to come. */
static PyObject *snapshot_whole_traces(Unpickler *u) {
    const Word *w = VEC(u->stack, Word);
    size_t n = u->stack.n, i = 0;
    if (n == 1 && W_TAG(w[0]) == W_DICT) return snapshot_traces(u); /* all but the last byte is there */
    while (i + 1 < n && w[i] != W_MAKE(W_TEXT, SK_SEGMENTS)) i++;
    if (i + 2 >= n || (W_TAG(w[i + 1]) != W_LIST && W_TAG(w[i + 1]) != W_EMPTY)) return NULL;
    if (w[i + 2] != W_MAKE(W_TEXT, SK_DEVICE_TRACES)) return NULL;
    PyObject *list = PyList_New(0);
    const Container *outer = i + 3 < n && W_TAG(w[i + 3]) == W_LIST ? sn_container(u, w[i + 3]) : NULL;
    if (list && outer && !append_rows_of(u, list, VEC(outer->items, Word), outer->items.n)) Py_CLEAR(list);
    size_t first = i + 4, end = first;
    while (end < n && (W_TAG(w[end]) == W_LIST || W_TAG(w[end]) == W_EMPTY)) end++;
    /* The last is not known to be whole. */
    if (list && outer && end > first && !append_rows_of(u, list, w + first, end - first - 1)) Py_CLEAR(list);
    return list;
}

static PyObject *snapshot_settings(Unpickler *u) {
    Word w = snapshot_item(u, SK_ALLOCATOR_SETTINGS);
    const Container *c = W_TAG(w) == W_DICT ? sn_container(u, w) : NULL;
    PyObject *dict = PyDict_New();
    for (size_t i = 0; dict && c && i < c->items.n; i += 2) {
        if (W_TAG(VEC(c->items, Word)[i]) != W_TEXT) continue;
        PyObject *key = word_object(u, VEC(c->items, Word)[i]), *value = word_object(u, VEC(c->items, Word)[i + 1]);
        if (!key || !value || PyDict_SetItem(dict, key, value) < 0) Py_CLEAR(dict);
        Py_XDECREF(key);
        Py_XDECREF(value);
    }
    return dict;
}

/* [[column, ...], ...] in the order of SN_COLUMNS: a Buffer each, of a text column (codes, texts' numbers). */
static PyObject *snapshot_tables(Unpickler *u) {
    PyObject *tables = PyList_New(0);
    for (int t = 0; tables && t < ST_COUNT; t++) {
        PyObject *columns = PyList_New(0);
        for (int c = 0; columns && SN_COLUMNS[t][c]; c++) {
            char kind = SN_COLUMNS[t][c];
            PyObject *column = vec_buffer(&u->columns[t][c], kind == 'q' ? 8 : kind == 'b' ? 1 : 4);
            if (column && kind == 't') {
                PyObject *words = vec_buffer(&u->words[t][c], 4);
                column = words ? Py_BuildValue("NN", column, words) : (Py_DECREF(column), NULL);
            }
            if (!column || PyList_Append(columns, column) < 0) Py_CLEAR(columns);
            Py_XDECREF(column);
        }
        if (!columns || PyList_Append(tables, columns) < 0) Py_CLEAR(tables);
        Py_XDECREF(columns);
    }
    return tables;
}

static PyObject *snapshot_result(Unpickler *u) {
    long long at = (long long)u->base + (long long)u->pos;
    PyObject *traces = u->error[0] ? (u->early ? snapshot_whole_traces(u) : NULL) : snapshot_traces(u);
    if (!traces && PyErr_Occurred()) return NULL;
    if (!traces) return Py_BuildValue("sL", u->error, at);
    Word segments = snapshot_item(u, SK_SEGMENTS);
    int found = (u->error[0] && u->stack.n > 1) || W_TAG(segments) == W_LIST || W_TAG(segments) == W_EMPTY;
    PyObject *settings = snapshot_settings(u);
    PyObject *tables = settings ? snapshot_tables(u) : NULL;
    Vec data = {(char *)u->texts.data, u->texts.size, 0};
    Vec offsets = {(char *)u->texts.offsets, u->texts.count + 1, 0};
    u->texts.data = NULL;
    u->texts.offsets = NULL;
    PyObject *texts = vec_buffer(&data, 1), *starts = vec_buffer(&offsets, sizeof(size_t));
    PyObject *blocks_of = vec_buffer(&u->blocks_of, 4);
    if (tables && texts && starts && blocks_of)
        return Py_BuildValue("OLNNNNNNs", found ? Py_True : Py_False, at, tables, texts, starts, blocks_of, traces,
                             settings, u->error);
    Py_XDECREF(traces);
    Py_XDECREF(settings);
    Py_XDECREF(tables);
    Py_XDECREF(texts);
    Py_XDECREF(starts);
    Py_XDECREF(blocks_of);
    return NULL;
}

static PyObject *py_snapshot(PyObject *module, PyObject *chunks) {
    PyObject *iterator = PyObject_GetIter(chunks), *chunk, *result = NULL;
    Unpickler *u = iterator ? malloc(sizeof *u) : NULL;
    (void)module;
    if (!u) {
        Py_XDECREF(iterator);
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    }
    sn_init(u);
    while (!u->stopped && (chunk = PyIter_Next(iterator))) {
        Py_buffer view;
        if (PyObject_GetBuffer(chunk, &view, PyBUF_SIMPLE) == 0) {
            Py_BEGIN_ALLOW_THREADS
            sn_feed(u, view.buf, (size_t)view.len);
            Py_END_ALLOW_THREADS
            PyBuffer_Release(&view);
        }
        Py_DECREF(chunk);
        if (PyErr_Occurred()) break;
    }
    Py_DECREF(iterator);
    if (!PyErr_Occurred()) {
        sn_finish(u);
        result = u->no_memory ? PyErr_NoMemory() : snapshot_result(u);
    }
    sn_free(u);
    free(u);
    return result;
}

static PyMethodDef module_methods[] = {
    {"lanes", py_lanes, METH_VARARGS, "lanes(order, track, ts, dur) -> int32 Buffer; see lanes.py."},
    {"rows", py_rows, METH_VARARGS, "rows(first, stop, parts) -> Buffer; see exporters/rows.py."},
    {"dag_earliest", py_dag_earliest, METH_VARARGS,
     "dag_earliest(first, source, weight, own) -> (finish, binding) Buffers; see dag.py."},
    {"dag_latest", py_dag_latest, METH_VARARGS,
     "dag_latest(first, source, weight, own, bound) -> finish Buffer; see dag.py."},
    {"snapshot", py_snapshot, METH_O, "snapshot(chunks) -> tables, or why not; see readers/snapshot.py."},
    {"dag_path", py_dag_path, METH_VARARGS,
     "dag_path(source, binding, finish, begin, end) -> nodes Buffer, from the end; see dag.py."},
    {"nest", py_nest, METH_VARARGS, "nest(track, ts, dur, leaf) -> (parent, depth, self) Buffers; see nesting.py."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module_def = {PyModuleDef_HEAD_INIT, "_scanner", "The trace scanner in C.", -1,
                                        module_methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__scanner(void) {
    PyObject *module = PyModule_Create(&module_def);
    if (!module) return NULL;
    BufferType = (PyTypeObject *)PyType_FromSpec(&buffer_spec);
    PyObject *scanner = PyType_FromSpec(&scanner_spec);
    if (!BufferType || !scanner || PyModule_AddObjectRef(module, "Scanner", scanner) < 0) {
        Py_XDECREF(scanner);
        Py_DECREF(module);
        return NULL;
    }
    Py_DECREF(scanner);
    return module;
}
