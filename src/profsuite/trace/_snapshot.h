/* A pickled memory snapshot -> columns, resumable, without the GIL and without one Python object.
 *
 * The same stack machine as readers/pickles.py with the builder of readers/snapshot_rows.py, which
 * say what is refused and why; tests/trace/test_snapshot.py holds the two together.  A dict that is
 * a row goes straight to its columns: what stays on the stack and in the memo is 8 bytes a value.
 */

enum {
    SN_DEEPEST = 32,            /* pickles.DEEPEST */
    SN_LONGEST_TEXT = 1 << 24,  /* pickles.LONGEST_TEXT */
    SN_LONGEST_STACK = 1024,    /* snapshot_rows.LONGEST_STACK */
    SN_LONGEST_TUPLE = 64,
    SN_MOST_CONTAINERS = 1000000, /* pickles.MOST_CONTAINERS */
    SN_ALLOWANCE = 1000000,       /* pickles.ALLOWANCE */
    SN_AHEAD = 16                 /* no opcode with its number is longer, text excepted */
};

/* The keys that mean something; each is the code of its text. */
#define SN_KEYS(X)                                                                                                   \
    X(ACTION, "action") X(FILENAME, "filename") X(STATE, "state") X(TOTAL_SIZE, "total_size") X(TIME_US, "time_us")  \
    X(ADDR, "addr") X(SIZE, "size") X(STREAM, "stream") X(FRAMES, "frames") X(DEVICE_FREE, "device_free")            \
    X(SEGMENT_POOL_ID, "segment_pool_id") X(POOL_ID, "pool_id") X(USER_METADATA, "user_metadata")                    \
    X(COMPILE_CONTEXT, "compile_context") X(NAME, "name") X(LINE, "line") X(ADDRESS, "address")                      \
    X(REQUESTED_SIZE, "requested_size") X(DEVICE, "device") X(ALLOCATED_SIZE, "allocated_size")                      \
    X(ACTIVE_SIZE, "active_size") X(SEGMENT_TYPE, "segment_type") X(IS_EXPANDABLE, "is_expandable")                  \
    X(BLOCKS, "blocks") X(STAGE, "stage") X(SEGMENTS, "segments") X(DEVICE_TRACES, "device_traces")                  \
    X(ALLOCATOR_SETTINGS, "allocator_settings") X(EMPTY, "")
#define SN_KEY(name, text) SK_##name,
enum { SN_KEYS(SN_KEY) SK_COUNT };

/* The tables and their columns, in the order of snapshot_rows.COLUMNS. */
enum { ST_ENTRY, ST_BLOCK, ST_SEGMENT, ST_ANNOTATION, ST_FRAME, ST_STACK, ST_COUNT };
enum { SE_ACTION, SE_ADDRESS, SE_BYTES, SE_STREAM, SE_TS, SE_DEVICE_FREE, SE_POOL, SE_METADATA, SE_CONTEXT, SE_STACK };
enum { SB_ADDRESS, SB_BYTES, SB_REQUESTED, SB_STATE, SB_STACK };
enum { SS_DEVICE, SS_ADDRESS, SS_TOTAL, SS_ALLOCATED, SS_ACTIVE, SS_REQUESTED, SS_STREAM, SS_KIND, SS_POOL,
       SS_EXPANDABLE, SS_STACK };
enum { SA_TS, SA_DEVICE, SA_NAME, SA_STAGE };
enum { SF_NAME, SF_FILE, SF_LINE };
enum { SK_FRAME_ID, SK_PARENT_ID };
#define SN_MAX_COLUMNS 11 /* of segment */
/* q: int64, i: int32, b: int8, t: int32 code of a text */
static const char *const SN_COLUMNS[ST_COUNT] = {"tqqqqqttti", "qqqti", "iqqqqqqttbi", "qitt", "ttq", "ii"};

/* ---------------------------------------------------------------- what grows */
typedef struct {
    char *data;
    size_t n, cap; /* elements */
} Vec;

static int vec_reserve(Vec *v, size_t more, size_t width) {
    if (v->n + more <= v->cap) return 1;
    size_t cap = v->cap + v->cap / 2 + 256;
    if (cap < v->n + more) cap = v->n + more;
    char *data = realloc(v->data, cap * width);
    if (!data) return 0;
    v->data = data;
    v->cap = cap;
    return 1;
}

#define VEC(v, type) ((type *)(v).data)

/* ---------------------------------------------------------------- values */
typedef uint64_t Word; /* the tag in the highest four bits */
enum { W_NONE, W_BOOL, W_INT, W_BIG, W_HUGE, W_FLOAT, W_TEXT, W_TUPLE, W_LIST, W_DICT, W_ROW, W_FRAME, W_STACK, W_EMPTY };
#define W_MASK ((1ull << 60) - 1)
#define W_MAKE(tag, payload) ((Word)(tag) << 60 | ((Word)(payload) & W_MASK))
#define W_TAG(w) ((int)((w) >> 60))
#define W_ID(w) ((size_t)((w) & W_MASK))
#define W_INLINE (1ll << 59) /* integers below that, and above its negative, are in the word itself */

typedef struct {
    uint32_t generation; /* a container's place is used again; old words of it are found out */
    int32_t shared; /* taken from the memo before it was complete: the stack may hold it twice */
    int64_t slot; /* in the memo, -1 for none */
    Vec items;    /* of a list words, of a dict pairs of words */
    int64_t first, end; /* rows of a list, end -1 where it has none */
} Container;

typedef struct {
    u8 *buf;
    size_t len, cap, pos;
    int64_t base; /* bytes before buf */
    int eof, stopped, no_memory, early;
    char error[200];
    Vec stack, marks, memo; /* Word, size_t, Word */
    Vec large;              /* int64 that fit no word, and doubles */
    Vec containers, unused; /* Container, uint32_t */
    int64_t kept, loose;
    Pool texts;
    Vec columns[ST_COUNT][SN_MAX_COLUMNS];
    Vec local[ST_COUNT][SN_MAX_COLUMNS];   /* of a text column: a text's code in the column, by its code, -1 */
    Vec words[ST_COUNT][SN_MAX_COLUMNS];   /* its texts by the code in the column */
    int64_t claimed[ST_ANNOTATION + 1];
    Vec blocks_of; /* int32: the segment of each block */
    uint32_t *frame_slots, *link_slots, *list_slots; /* row + 1 */
    size_t frame_mask, link_mask, list_mask, num_lists;
    Vec list_hash, list_leaf; /* uint32_t, int32_t: the stacks known as whole lists */
} Unpickler;

static int sn_fail(Unpickler *u, const char *format, ...) {
    if (!u->error[0]) {
        va_list args;
        va_start(args, format);
        vsnprintf(u->error, sizeof u->error, format, args);
        va_end(args);
    }
    u->stopped = 1;
    return 0;
}

static int sn_unfit(Unpickler *u, const char *what) {
    return sn_fail(u, "a value does not fit a memory snapshot (%s)", what);
}

static int sn_early(Unpickler *u) {
    u->early = 1;
    return sn_fail(u, "the pickle ends early, or is damaged: is the file whole?");
}

static int sn_memory(Unpickler *u) {
    u->no_memory = 1;
    return sn_fail(u, "out of memory");
}

static int sn_hold(Unpickler *u, int64_t count) {
    if (count <= SN_ALLOWANCE + (u->base + (int64_t)u->pos) / 8) return 1;
    return sn_fail(u, "far more values at once than a memory snapshot of this size holds");
}

static int sn_keep(Unpickler *u, int64_t number) {
    u->kept += number;
    if (u->kept <= SN_MOST_CONTAINERS) return 1;
    return sn_fail(u, "more than 1,000,000 lists and dicts that are no part of a memory snapshot");
}

static int sn_add(Unpickler *u, Vec *v, const void *value, size_t width) {
    if (!vec_reserve(v, 1, width)) return sn_memory(u);
    memcpy(v->data + v->n * width, value, width);
    v->n++;
    return 1;
}

static int sn_push(Unpickler *u, Word w) {
    if (u->stack.n == u->stack.cap && !sn_hold(u, 2 * (int64_t)u->stack.n)) return 0;
    return sn_add(u, &u->stack, &w, sizeof w);
}

static Word sn_integer(Unpickler *u, int64_t value) {
    if (value < W_INLINE && value >= -W_INLINE) return W_MAKE(W_INT, value);
    sn_add(u, &u->large, &value, sizeof value);
    return W_MAKE(W_BIG, u->large.n - 1);
}

/* The value of an integer or a bool. */
static int sn_as_int(Unpickler *u, Word w, int64_t *value) {
    int tag = W_TAG(w);
    if (tag == W_INT) *value = (int64_t)(w << 4) >> 4;
    else if (tag == W_BOOL) *value = (int64_t)W_ID(w);
    else if (tag == W_BIG) *value = VEC(u->large, int64_t)[W_ID(w)];
    else return sn_unfit(u, tag == W_HUGE ? "an integer of more than 64 bits" : "no integer where one belongs");
    return 1;
}

/* ---------------------------------------------------------------- containers */
static Word sn_new(Unpickler *u, int is_list) {
    uint32_t at;
    if (u->unused.n) {
        at = VEC(u->unused, uint32_t)[--u->unused.n];
    } else {
        Container fresh;
        memset(&fresh, 0, sizeof fresh);
        if (u->containers.n >= 1u << 28) return sn_fail(u, "too many lists and dicts"), 0;
        if (!sn_add(u, &u->containers, &fresh, sizeof fresh)) return 0;
        at = (uint32_t)u->containers.n - 1;
    }
    Container *c = &VEC(u->containers, Container)[at];
    c->shared = 0;
    c->slot = c->end = -1;
    c->first = 0;
    c->items.n = 0;
    return W_MAKE(is_list ? W_LIST : W_DICT, (Word)at << 32 | c->generation);
}

/* What a word names, NULL if it is no container or has become something else. */
static Container *sn_container(Unpickler *u, Word w) {
    if (W_TAG(w) != W_LIST && W_TAG(w) != W_DICT) return NULL;
    Container *c = &VEC(u->containers, Container)[W_ID(w) >> 32];
    return c->generation == (uint32_t)w ? c : NULL;
}

/* The container has become `made`, in the memo too, and wherever else the stack holds it. */
static int sn_became(Unpickler *u, Container *c, Word old, Word made) {
    uint32_t at = (uint32_t)(c - VEC(u->containers, Container));
    for (size_t i = 0; c->shared && i < u->stack.n; i++)
        if (VEC(u->stack, Word)[i] == old) VEC(u->stack, Word)[i] = made;
    if (c->slot >= 0) VEC(u->memo, Word)[c->slot] = made;
    c->generation++;
    if (c->items.cap > 4096) {
        free(c->items.data);
        memset(&c->items, 0, sizeof c->items);
    }
    return sn_add(u, &u->unused, &at, sizeof at);
}

static int sn_recall(Unpickler *u, size_t index) {
    if (index >= u->memo.n) return sn_early(u);
    Word w = VEC(u->memo, Word)[index];
    Container *c = sn_container(u, w);
    if (c) c->shared = 1;
    return sn_push(u, w);
}

static int sn_remember(Unpickler *u, size_t index) {
    if (!u->stack.n) return sn_early(u);
    if (index > u->memo.n) return sn_fail(u, "the memo has a hole before %zu", index);
    Word w = VEC(u->stack, Word)[u->stack.n - 1];
    Container *c = sn_container(u, w);
    if (c) c->slot = (int64_t)index;
    if (index < u->memo.n) {
        VEC(u->memo, Word)[index] = w;
        return 1;
    }
    if (u->memo.n == u->memo.cap && !sn_hold(u, (int64_t)u->memo.n)) return 0;
    return sn_add(u, &u->memo, &w, sizeof w);
}

/* ---------------------------------------------------------------- texts */
static int sn_text(Unpickler *u, const u8 *p, size_t n, int tag) {
    int repaired = 0;
    int32_t code = pool_code(&u->texts, p, n, &repaired);
    if (code < 0) return sn_memory(u);
    return sn_push(u, W_MAKE(tag, code));
}

/* The code in a column of a text (or of a tuple, by its text); -1 of None. */
static int sn_code(Unpickler *u, int table, int column, Word w, int32_t *code) {
    *code = -1;
    if (W_TAG(w) == W_NONE) return 1;
    if (W_TAG(w) != W_TEXT && W_TAG(w) != W_TUPLE) return sn_unfit(u, "no text where one belongs");
    Vec *local = &u->local[table][column], *words = &u->words[table][column];
    size_t id = W_ID(w);
    if (id >= local->n) {
        if (!vec_reserve(local, id + 1 - local->n, 4)) return sn_memory(u);
        memset(local->data + 4 * local->n, 0xFF, 4 * (id + 1 - local->n));
        local->n = id + 1;
    }
    int32_t *known = &VEC(*local, int32_t)[id];
    if (*known < 0) {
        int32_t text = (int32_t)id;
        *known = (int32_t)words->n;
        if (!sn_add(u, words, &text, sizeof text)) return 0;
    }
    *code = *known;
    return 1;
}

/* A tuple of integers and texts as the text of its items with commas between them. */
static int sn_tuple(Unpickler *u, size_t first) {
    size_t n = u->stack.n - first, size = 0, cap = 32;
    Word *w = VEC(u->stack, Word) + first;
    for (size_t i = 0; i < n; i++) {
        if (n > SN_LONGEST_TUPLE || W_TAG(w[i]) > W_TEXT || W_TAG(w[i]) == W_HUGE || W_TAG(w[i]) == W_FLOAT)
            return sn_fail(u, "a tuple that holds more than a few integers and texts");
        cap += 32;
        if (W_TAG(w[i]) == W_TEXT) cap += u->texts.offsets[W_ID(w[i]) + 1] - u->texts.offsets[W_ID(w[i])];
    }
    if (cap > SN_LONGEST_TEXT) return sn_fail(u, "a text of %zu bytes", cap);
    u8 *text = malloc(cap);
    if (!text) return sn_memory(u);
    for (size_t i = 0; i < n; i++) {
        int64_t value = 0;
        if (i) text[size++] = ',';
        switch (W_TAG(w[i])) {
        case W_NONE: size += (size_t)sprintf((char *)text + size, "None"); break;
        case W_BOOL: size += (size_t)sprintf((char *)text + size, W_ID(w[i]) ? "True" : "False"); break;
        case W_TEXT: {
            size_t start = u->texts.offsets[W_ID(w[i])], length = u->texts.offsets[W_ID(w[i]) + 1] - start;
            memcpy(text + size, u->texts.data + start, length);
            size += length;
            break;
        }
        default:
            sn_as_int(u, w[i], &value);
            size += (size_t)sprintf((char *)text + size, "%lld", (long long)value);
        }
    }
    u->stack.n = first;
    int good = sn_text(u, text, size, W_TUPLE);
    free(text);
    return good;
}

/* ---------------------------------------------------------------- hash tables of rows */
static inline uint32_t sn_hash(uint64_t a, uint64_t b) {
    uint64_t h = (a ^ (b + 0x9E3779B97F4A7C15ull)) * HASH_MULTIPLIER;
    h ^= h >> 32;
    return (uint32_t)((h * HASH_MULTIPLIER) >> 32);
}

typedef uint32_t (*RowHash)(const Unpickler *, size_t row);

/* Room for one more among `count` rows. */
static int sn_room(Unpickler *u, uint32_t **slots, size_t *mask, size_t count, RowHash hash) {
    if (*slots && count * 2 < *mask) return 1;
    size_t size = *slots ? (*mask + 1) * 4 : 1024;
    uint32_t *fresh = calloc(size, sizeof *fresh);
    if (!fresh || count >= INT32_MAX - 1) {
        free(fresh);
        return sn_memory(u);
    }
    for (size_t row = 0; row < count; row++) {
        size_t at = hash(u, row) & (size - 1);
        while (fresh[at]) at = (at + 1) & (size - 1);
        fresh[at] = (uint32_t)row + 1;
    }
    free(*slots);
    *slots = fresh;
    *mask = size - 1;
    return 1;
}

#define SN_COLUMN(u, table, column, type) VEC((u)->columns[table][column], type)
#define SN_ROWS(u, table) ((u)->columns[table][0].n)

static uint32_t sn_frame_hash(const Unpickler *u, size_t row) {
    uint64_t codes = (uint64_t)(uint32_t)SN_COLUMN(u, ST_FRAME, SF_NAME, int32_t)[row] << 32;
    codes |= (uint32_t)SN_COLUMN(u, ST_FRAME, SF_FILE, int32_t)[row];
    return sn_hash(codes, (uint64_t)SN_COLUMN(u, ST_FRAME, SF_LINE, int64_t)[row]);
}

static uint32_t sn_link_hash(const Unpickler *u, size_t row) {
    return sn_hash((uint32_t)SN_COLUMN(u, ST_STACK, SK_FRAME_ID, int32_t)[row],
                   (uint32_t)SN_COLUMN(u, ST_STACK, SK_PARENT_ID, int32_t)[row]);
}

static uint32_t sn_list_hash(const Unpickler *u, size_t row) { return VEC(u->list_hash, uint32_t)[row]; }

static int sn_column(Unpickler *u, int table, int column, int64_t value) {
    Vec *v = &u->columns[table][column];
    switch (SN_COLUMNS[table][column]) {
    case 'q': return sn_add(u, v, &value, 8);
    case 'b': {
        int8_t narrow = (int8_t)value;
        return sn_add(u, v, &narrow, 1);
    }
    default: {
        int32_t narrow = (int32_t)value;
        if (narrow != value) return sn_unfit(u, "an integer of more than 32 bits");
        return sn_add(u, v, &narrow, 4);
    }
    }
}

/* ---------------------------------------------------------------- dicts that are rows */
typedef struct {
    Word value[SK_COUNT];
    uint64_t has; /* bit k: key k is there */
} Items;

#define HAS(d, key) ((d)->has >> (key) & 1)

static int sn_get(Unpickler *u, const Items *d, int key, int64_t otherwise, int64_t *value) {
    *value = otherwise;
    return !HAS(d, key) || sn_as_int(u, d->value[key], value);
}

static int sn_must(Unpickler *u, const Items *d, int key, int64_t *value) {
    if (!HAS(d, key)) return sn_unfit(u, "a key is missing");
    return sn_as_int(u, d->value[key], value);
}

static int sn_time(Unpickler *u, const Items *d, int64_t *ns) {
    *ns = INT64_MIN;
    if (!HAS(d, SK_TIME_US) || W_TAG(d->value[SK_TIME_US]) == W_NONE) return 1;
    if (!sn_as_int(u, d->value[SK_TIME_US], ns)) return 0;
    if (*ns > INT64_MAX / 1000 || *ns < INT64_MIN / 1000) return sn_unfit(u, "a time beyond 64 bits of nanoseconds");
    *ns *= 1000;
    return 1;
}

static int sn_stack_of(Unpickler *u, const Items *d, int64_t *stack) {
    *stack = -1;
    if (!HAS(d, SK_FRAMES)) return 1;
    Word w = d->value[SK_FRAMES];
    if (W_TAG(w) == W_STACK) *stack = (int64_t)W_ID(w);
    else if (W_TAG(w) != W_NONE && W_TAG(w) != W_EMPTY) return sn_unfit(u, "frames are no list of frames");
    return 1;
}

static int sn_coded(Unpickler *u, int table, int column, const Items *d, int key) {
    int32_t code;
    return sn_code(u, table, column, HAS(d, key) ? d->value[key] : 0, &code) && sn_column(u, table, column, code);
}

/* Set what few entries have: the column begins where the first of them comes. */
static int sn_note(Unpickler *u, const Items *d, int key, int column) {
    if (!HAS(d, key)) return 1;
    Word w = d->value[key];
    if (W_TAG(w) == W_NONE || (W_TAG(w) == W_TEXT && W_ID(w) == SK_EMPTY)) return 1;
    Vec *v = &u->columns[ST_ENTRY][column];
    int is_text = SN_COLUMNS[ST_ENTRY][column] == 't';
    size_t rows = SN_ROWS(u, ST_ENTRY);
    int64_t value = 0;
    int32_t code = 0;
    if (is_text ? !sn_code(u, ST_ENTRY, column, w, &code) : !sn_as_int(u, w, &value)) return 0;
    if (is_text) value = code;
    if (v->n > rows) v->n = rows; /* told under two names: the later counts */
    while (v->n < rows)
        if (!sn_column(u, ST_ENTRY, column, is_text ? -1 : INT64_MIN)) return 0;
    return sn_column(u, ST_ENTRY, column, value);
}

static int sn_entry(Unpickler *u, const Items *d) {
    int64_t address, bytes, stream, ts, stack;
    return sn_get(u, d, SK_ADDR, INT64_MIN, &address) && sn_column(u, ST_ENTRY, SE_ADDRESS, address) &&
           sn_get(u, d, SK_SIZE, INT64_MIN, &bytes) && sn_column(u, ST_ENTRY, SE_BYTES, bytes) &&
           sn_get(u, d, SK_STREAM, INT64_MIN, &stream) && sn_column(u, ST_ENTRY, SE_STREAM, stream) &&
           sn_time(u, d, &ts) && sn_column(u, ST_ENTRY, SE_TS, ts) &&
           sn_stack_of(u, d, &stack) && sn_column(u, ST_ENTRY, SE_STACK, stack) &&
           sn_note(u, d, SK_DEVICE_FREE, SE_DEVICE_FREE) && sn_note(u, d, SK_SEGMENT_POOL_ID, SE_POOL) &&
           sn_note(u, d, SK_POOL_ID, SE_POOL) && sn_note(u, d, SK_USER_METADATA, SE_METADATA) &&
           sn_note(u, d, SK_COMPILE_CONTEXT, SE_CONTEXT) && sn_coded(u, ST_ENTRY, SE_ACTION, d, SK_ACTION);
}

static int sn_frame(Unpickler *u, const Items *d, Word *made) {
    int32_t name, file;
    int64_t line;
    if (!HAS(d, SK_NAME)) return sn_unfit(u, "a key is missing");
    if (!sn_code(u, ST_FRAME, SF_NAME, d->value[SK_NAME], &name) ||
        !sn_code(u, ST_FRAME, SF_FILE, d->value[SK_FILENAME], &file) || !sn_get(u, d, SK_LINE, INT64_MIN, &line) ||
        !sn_room(u, &u->frame_slots, &u->frame_mask, SN_ROWS(u, ST_FRAME), sn_frame_hash))
        return 0;
    uint32_t hash = sn_hash((uint64_t)(uint32_t)name << 32 | (uint32_t)file, (uint64_t)line);
    size_t at = hash & u->frame_mask;
    for (; u->frame_slots[at]; at = (at + 1) & u->frame_mask) {
        size_t row = u->frame_slots[at] - 1;
        if (SN_COLUMN(u, ST_FRAME, SF_LINE, int64_t)[row] == line &&
            SN_COLUMN(u, ST_FRAME, SF_NAME, int32_t)[row] == name &&
            SN_COLUMN(u, ST_FRAME, SF_FILE, int32_t)[row] == file) {
            *made = W_MAKE(W_FRAME, row);
            return 1;
        }
    }
    size_t row = SN_ROWS(u, ST_FRAME);
    u->frame_slots[at] = (uint32_t)row + 1;
    *made = W_MAKE(W_FRAME, row);
    return sn_column(u, ST_FRAME, SF_NAME, name) && sn_column(u, ST_FRAME, SF_FILE, file) &&
           sn_column(u, ST_FRAME, SF_LINE, line);
}

static int sn_block(Unpickler *u, const Items *d) {
    int64_t address, bytes = 0, requested, stack;
    return sn_get(u, d, SK_ADDRESS, INT64_MIN, &address) && sn_column(u, ST_BLOCK, SB_ADDRESS, address) &&
           sn_must(u, d, SK_SIZE, &bytes) && sn_column(u, ST_BLOCK, SB_BYTES, bytes) &&
           sn_get(u, d, SK_REQUESTED_SIZE, INT64_MIN, &requested) &&
           sn_column(u, ST_BLOCK, SB_REQUESTED, requested) && sn_coded(u, ST_BLOCK, SB_STATE, d, SK_STATE) &&
           sn_stack_of(u, d, &stack) && sn_column(u, ST_BLOCK, SB_STACK, stack);
}

static int sn_segment(Unpickler *u, const Items *d) {
    static const int KEYS[] = {SK_ALLOCATED_SIZE, SK_ACTIVE_SIZE, SK_REQUESTED_SIZE, SK_STREAM};
    Word blocks = HAS(d, SK_BLOCKS) ? d->value[SK_BLOCKS] : 0;
    const Container *c = W_TAG(blocks) == W_LIST ? sn_container(u, blocks) : NULL;
    if (W_TAG(blocks) != W_EMPTY && (!c || c->items.n))
        return sn_unfit(u, "a segment's blocks are no list of blocks");
    int64_t first = c ? c->first : 0, end = c ? c->end : 0, value;
    int32_t row = (int32_t)SN_ROWS(u, ST_SEGMENT);
    if (end > first && first != (int64_t)u->blocks_of.n)
        return sn_fail(u, "a list of blocks that is part of two segments");
    for (int64_t i = first; i < end; i++)
        if (!sn_add(u, &u->blocks_of, &row, sizeof row)) return 0;
    if (!sn_must(u, d, SK_DEVICE, &value) || !sn_column(u, ST_SEGMENT, SS_DEVICE, value)) return 0;
    if (!sn_must(u, d, SK_ADDRESS, &value) || !sn_column(u, ST_SEGMENT, SS_ADDRESS, value)) return 0;
    if (!sn_must(u, d, SK_TOTAL_SIZE, &value) || !sn_column(u, ST_SEGMENT, SS_TOTAL, value)) return 0;
    for (int i = 0; i < 4; i++)
        if (!sn_get(u, d, KEYS[i], INT64_MIN, &value) || !sn_column(u, ST_SEGMENT, SS_ALLOCATED + i, value)) return 0;
    value = -1;
    if (HAS(d, SK_IS_EXPANDABLE) && W_TAG(d->value[SK_IS_EXPANDABLE]) != W_NONE) {
        if (!sn_as_int(u, d->value[SK_IS_EXPANDABLE], &value)) return 0;
        value = value != 0;
    }
    return sn_column(u, ST_SEGMENT, SS_EXPANDABLE, value) && sn_coded(u, ST_SEGMENT, SS_KIND, d, SK_SEGMENT_TYPE) &&
           sn_coded(u, ST_SEGMENT, SS_POOL, d, SK_SEGMENT_POOL_ID) && sn_stack_of(u, d, &value) &&
           sn_column(u, ST_SEGMENT, SS_STACK, value);
}

static int sn_mark(Unpickler *u, const Items *d) {
    int64_t ts, device;
    if (W_TAG(d->value[SK_TIME_US]) == W_NONE) return sn_unfit(u, "no integer where one belongs");
    return sn_time(u, d, &ts) && sn_column(u, ST_ANNOTATION, SA_TS, ts) && sn_get(u, d, SK_DEVICE, -1, &device) &&
           sn_column(u, ST_ANNOTATION, SA_DEVICE, device) && sn_coded(u, ST_ANNOTATION, SA_NAME, d, SK_NAME) &&
           sn_coded(u, ST_ANNOTATION, SA_STAGE, d, SK_STAGE);
}

/* The row that a dict becomes; *made stays 0 for a dict of another kind. */
static int sn_record(Unpickler *u, const Items *d, Word *made) {
    *made = 0;
    if (HAS(d, SK_ACTION)) return *made = W_MAKE(W_ROW, ST_ENTRY), sn_entry(u, d);
    if (HAS(d, SK_FILENAME)) return sn_frame(u, d, made);
    if (HAS(d, SK_STATE)) return *made = W_MAKE(W_ROW, ST_BLOCK), sn_block(u, d);
    if (HAS(d, SK_TOTAL_SIZE)) return *made = W_MAKE(W_ROW, ST_SEGMENT), sn_segment(u, d);
    if (HAS(d, SK_TIME_US)) return *made = W_MAKE(W_ROW, ST_ANNOTATION), sn_mark(u, d);
    return 1;
}

/* ---------------------------------------------------------------- lists of frames */
static int sn_is_list_of(const Unpickler *u, int32_t leaf, const Word *frames, size_t n) {
    const int32_t *frame = SN_COLUMN(u, ST_STACK, SK_FRAME_ID, int32_t);
    const int32_t *parent = SN_COLUMN(u, ST_STACK, SK_PARENT_ID, int32_t);
    for (size_t i = 0; i < n; i++, leaf = parent[leaf])
        if (leaf < 0 || frame[leaf] != (int32_t)W_ID(frames[i])) return 0;
    return leaf < 0;
}

/* The row of the stack without its innermost frame `frame`. */
static int sn_link(Unpickler *u, int32_t parent, int32_t frame, int32_t *row) {
    if (!sn_room(u, &u->link_slots, &u->link_mask, SN_ROWS(u, ST_STACK), sn_link_hash)) return 0;
    size_t at = sn_hash((uint32_t)frame, (uint32_t)parent) & u->link_mask;
    for (; u->link_slots[at]; at = (at + 1) & u->link_mask) {
        *row = (int32_t)u->link_slots[at] - 1;
        if (SN_COLUMN(u, ST_STACK, SK_FRAME_ID, int32_t)[*row] == frame &&
            SN_COLUMN(u, ST_STACK, SK_PARENT_ID, int32_t)[*row] == parent)
            return 1;
    }
    *row = (int32_t)SN_ROWS(u, ST_STACK);
    u->link_slots[at] = (uint32_t)*row + 1;
    return sn_column(u, ST_STACK, SK_FRAME_ID, frame) && sn_column(u, ST_STACK, SK_PARENT_ID, parent);
}

/* A list of frames becomes a stack once it is part of something, any other stays a list. */
static int sn_settle(Unpickler *u, Word *w) {
    if (W_TAG(*w) != W_LIST) return 1;
    Container *c = sn_container(u, *w);
    if (!c) return sn_fail(u, "a list is used after it was complete");
    const Word *frames = VEC(c->items, Word);
    size_t n = c->items.n;
    if (!n && c->end < 0) { /* many an entry has no frames */
        Word old = *w;
        *w = W_MAKE(W_EMPTY, 0);
        return sn_became(u, c, old, *w);
    }
    if (!n || W_TAG(frames[0]) != W_FRAME) return 1;
    uint64_t h = n;
    for (size_t i = 0; i < n; i++) {
        if (n > SN_LONGEST_STACK || W_TAG(frames[i]) != W_FRAME)
            return sn_fail(u, "a call stack that is not one, or deeper than %d", SN_LONGEST_STACK);
        h = (h ^ W_ID(frames[i])) * HASH_MULTIPLIER;
        h ^= h >> 29;
    }
    uint32_t hash = (uint32_t)h;
    if (!sn_room(u, &u->list_slots, &u->list_mask, u->list_hash.n, sn_list_hash)) return 0;
    size_t at = hash & u->list_mask;
    int32_t leaf = -1;
    for (; u->list_slots[at]; at = (at + 1) & u->list_mask) {
        size_t known = u->list_slots[at] - 1;
        leaf = VEC(u->list_leaf, int32_t)[known];
        if (VEC(u->list_hash, uint32_t)[known] == hash && sn_is_list_of(u, leaf, frames, n)) break;
        leaf = -1;
    }
    if (leaf < 0) { /* callers are shared: the innermost frame is first */
        for (size_t i = n; i-- > 0;)
            if (!sn_link(u, leaf, (int32_t)W_ID(frames[i]), &leaf)) return 0;
        u->list_slots[at] = (uint32_t)u->list_hash.n + 1;
        if (!sn_add(u, &u->list_hash, &hash, sizeof hash) || !sn_add(u, &u->list_leaf, &leaf, sizeof leaf)) return 0;
    }
    Word old = *w;
    *w = W_MAKE(W_STACK, leaf);
    return sn_became(u, c, old, *w);
}

/* ---------------------------------------------------------------- opcodes on containers */
static int sn_set_items(Unpickler *u, size_t first) {
    if (first < 1 || first > u->stack.n) return sn_early(u);
    Word *values = VEC(u->stack, Word) + first;
    size_t n = u->stack.n - first;
    Container *c = W_TAG(values[-1]) == W_DICT ? sn_container(u, values[-1]) : NULL;
    if (!c) return sn_fail(u, "an item is set in something that is no dict, or complete already");
    if (n & 1) return sn_unfit(u, "a key has no value");
    size_t at = W_ID(values[-1]) >> 32;
    Items d;
    d.has = 0;
    for (size_t i = 0; i < n; i += 2) {
        if (!sn_settle(u, &values[i + 1])) return 0;
        if (W_TAG(values[i]) == W_TEXT && W_ID(values[i]) < SK_COUNT) {
            d.value[W_ID(values[i])] = values[i + 1];
            d.has |= 1ull << W_ID(values[i]);
        }
    }
    Word made = 0;
    c = &VEC(u->containers, Container)[at];
    if (!c->items.n && !sn_record(u, &d, &made)) return 0;
    u->stack.n = first;
    c = &VEC(u->containers, Container)[at];
    if (made) {
        Word old = values[-1];
        values[-1] = made;
        return sn_became(u, c, old, made);
    }
    for (size_t i = 0; i < n; i += 2)
        if (W_TAG(values[i]) > W_TUPLE) return sn_fail(u, "a key that is no number or text");
    if (!vec_reserve(&c->items, n, sizeof(Word))) return sn_memory(u);
    if (n) memcpy(VEC(c->items, Word) + c->items.n, values, n * sizeof(Word));
    c->items.n += n;
    u->loose += (int64_t)n / 2;
    return sn_hold(u, u->loose) && sn_keep(u, 1);
}

static int sn_append(Unpickler *u, size_t first) {
    if (first < 1 || first > u->stack.n) return sn_early(u);
    Word *values = VEC(u->stack, Word) + first;
    size_t n = u->stack.n - first;
    Container *c = W_TAG(values[-1]) == W_LIST ? sn_container(u, values[-1]) : NULL;
    if (!c) return sn_fail(u, "something is appended to what is no list, or complete already");
    u->stack.n = first;
    if (!n) return 1;
    int tag = W_TAG(values[0]);
    if (tag == W_ROW) {
        size_t table = W_ID(values[0]);
        int64_t there = (int64_t)SN_ROWS(u, table), claimed = u->claimed[table];
        for (size_t i = 0; i < n; i++)
            if (values[i] != values[0] || c->items.n) return sn_fail(u, "a list that mixes rows with something else");
        if (there - claimed != (int64_t)n || (c->end >= 0 && c->end != claimed))
            return sn_fail(u, "a list of rows that are part of another list too");
        if (c->end < 0) c->first = claimed;
        c->end = u->claimed[table] = there;
        return 1;
    }
    if (c->end >= 0) return sn_fail(u, "a list that mixes rows with something else");
    size_t at = W_ID(values[-1]) >> 32;
    for (size_t i = 0; i < n; i++)
        if (!sn_settle(u, &values[i])) return 0;
    c = &VEC(u->containers, Container)[at];
    if (!vec_reserve(&c->items, n, sizeof(Word))) return sn_memory(u);
    memcpy(VEC(c->items, Word) + c->items.n, values, n * sizeof(Word));
    c->items.n += n;
    if (tag <= W_TUPLE || tag == W_EMPTY) {
        u->loose += (int64_t)n;
        return sn_hold(u, u->loose);
    }
    return (tag != W_LIST && tag != W_DICT) || sn_keep(u, (int64_t)n);
}

/* ---------------------------------------------------------------- the machine */
static inline uint32_t sn_u32(const u8 *p) { return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24; }

static inline uint64_t sn_u64(const u8 *p) { return sn_u32(p) | (uint64_t)sn_u32(p + 4) << 32; }

static int sn_popped_mark(Unpickler *u, size_t *first) {
    if (!u->marks.n) return sn_early(u);
    *first = VEC(u->marks, size_t)[--u->marks.n];
    return *first <= u->stack.n || sn_early(u);
}

static int sn_long(Unpickler *u, const u8 *p, size_t n) {
    uint64_t low = 0;
    for (size_t i = 0; i < n && i < 8; i++) low |= (uint64_t)p[i] << (8 * i);
    if (n && n < 8 && p[n - 1] & 0x80) low |= ~0ull << (8 * n);
    if (n == 9 && p[8] != ((int64_t)low < 0 ? 0xFF : 0)) { /* 64 bits in `large`, the rest after them */
        int64_t high = p[8] < 0x80 ? p[8] : p[8] - 0x100;
        return sn_add(u, &u->large, &low, 8) && sn_add(u, &u->large, &high, 8) &&
               sn_push(u, W_MAKE(W_HUGE, u->large.n - 2));
    }
    return sn_push(u, sn_integer(u, (int64_t)low));
}

/* Run until the buffer needs more: at least an opcode is whole, texts are waited for. */
static void sn_run(Unpickler *u) {
    while (!u->stopped) {
        const u8 *p = u->buf + u->pos, *end = u->buf + u->len;
        if (end - p < SN_AHEAD && !u->eof) return;
        size_t left = (size_t)(end - p), first = 0;
#define NEEDS(n)                                                                                                     \
    if (left < 1 + (size_t)(n)) {                                                                                    \
        u->pos = u->len;                                                                                             \
        sn_early(u);                                                                                                 \
        return;                                                                                                      \
    }
        NEEDS(0)
        size_t step = 1;
        int good = 1;
        switch (*p) {
        case 0x6A: /* LONG_BINGET */
            NEEDS(4)
            good = sn_recall(u, sn_u32(p + 1));
            step = 5;
            break;
        case 0x68: /* BINGET */
            NEEDS(1)
            good = sn_recall(u, p[1]);
            step = 2;
            break;
        case 0x94: good = sn_remember(u, u->memo.n); break; /* MEMOIZE */
        case 0x71: /* BINPUT */
            NEEDS(1)
            good = sn_remember(u, p[1]);
            step = 2;
            break;
        case 0x72: /* LONG_BINPUT */
            NEEDS(4)
            good = sn_remember(u, sn_u32(p + 1));
            step = 5;
            break;
        case 0x4A: /* BININT */
            NEEDS(4)
            good = sn_push(u, sn_integer(u, (int32_t)sn_u32(p + 1)));
            step = 5;
            break;
        case 0x4D: /* BININT2 */
            NEEDS(2)
            good = sn_push(u, W_MAKE(W_INT, p[1] | p[2] << 8));
            step = 3;
            break;
        case 0x4B: /* BININT1 */
            NEEDS(1)
            good = sn_push(u, W_MAKE(W_INT, p[1]));
            step = 2;
            break;
        case 0x8A: /* LONG1 */
            NEEDS(1)
            if (p[1] > 9) {
                good = sn_fail(u, "an integer of %d bytes", p[1]);
                break;
            }
            NEEDS(1 + (size_t)p[1])
            good = sn_long(u, p + 2, p[1]);
            step = 2 + (size_t)p[1];
            break;
        case 0x47: { /* BINFLOAT */
            NEEDS(8)
            uint64_t bits = 0;
            for (int i = 0; i < 8; i++) bits = bits << 8 | p[1 + i];
            good = sn_add(u, &u->large, &bits, 8) && sn_push(u, W_MAKE(W_FLOAT, u->large.n - 1));
            step = 9;
            break;
        }
        case 0x8C: case 0x58: case 0x8D: { /* SHORT_BINUNICODE, BINUNICODE, BINUNICODE8 */
            size_t width = *p == 0x8C ? 1 : *p == 0x58 ? 4 : 8;
            NEEDS(width)
            uint64_t length = width == 1 ? p[1] : width == 4 ? sn_u32(p + 1) : sn_u64(p + 1);
            if (length > SN_LONGEST_TEXT) {
                good = sn_fail(u, "a text of %llu bytes", (unsigned long long)length);
                break;
            }
            if (left < 1 + width + length && !u->eof) return;
            NEEDS(width + length)
            good = sn_text(u, p + 1 + width, length, W_TEXT);
            step = 1 + width + length;
            break;
        }
        case 0x28: /* MARK */
            if (u->marks.n >= SN_DEEPEST) good = sn_fail(u, "more than %d containers inside one another", SN_DEEPEST);
            else good = sn_add(u, &u->marks, &u->stack.n, sizeof u->stack.n);
            break;
        case 0x7D: case 0x5D: { /* EMPTY_DICT, EMPTY_LIST */
            Word made = sn_new(u, *p == 0x5D);
            good = made && sn_hold(u, (int64_t)(u->containers.n - u->unused.n)) && sn_push(u, made);
            break;
        }
        case 0x75: good = sn_popped_mark(u, &first) && sn_set_items(u, first); break; /* SETITEMS */
        case 0x73: /* SETITEM */
            good = u->stack.n < 3 ? sn_early(u) : sn_set_items(u, u->stack.n - 2);
            break;
        case 0x65: good = sn_popped_mark(u, &first) && sn_append(u, first); break; /* APPENDS */
        case 0x61: /* APPEND */
            good = u->stack.n < 2 ? sn_early(u) : sn_append(u, u->stack.n - 1);
            break;
        case 0x4E: good = sn_push(u, W_MAKE(W_NONE, 0)); break;
        case 0x88: good = sn_push(u, W_MAKE(W_BOOL, 1)); break; /* NEWTRUE */
        case 0x89: good = sn_push(u, W_MAKE(W_BOOL, 0)); break; /* NEWFALSE */
        case 0x29: good = sn_tuple(u, u->stack.n); break; /* EMPTY_TUPLE */
        case 0x85: case 0x86: case 0x87: /* TUPLE1, TUPLE2, TUPLE3 */
            first = (size_t)(*p - 0x84);
            good = u->stack.n < first ? sn_early(u) : sn_tuple(u, u->stack.n - first);
            break;
        case 0x74: good = sn_popped_mark(u, &first) && sn_tuple(u, first); break; /* TUPLE */
        case 0x95: /* FRAME */
            NEEDS(8)
            step = 9;
            break;
        case 0x80: /* PROTO */
            NEEDS(1)
            if (p[1] < 2 || p[1] > 5) good = sn_fail(u, "pickle protocol %d; 2 to 5 are known", p[1]);
            step = 2;
            break;
        case 0x2E: /* STOP */
            if (u->stack.n != 1 || u->marks.n) good = sn_fail(u, "the pickle is damaged: it stops in the middle");
            u->stopped = 1;
            break;
        default:
            sn_fail(u, "opcode %d", *p); /* named by the caller */
            return;
        }
#undef NEEDS
        if (good) u->pos += step;
    }
}

static void sn_init(Unpickler *u) {
    memset(u, 0, sizeof *u);
#define SN_INTERN(name, text) {                                                                                      \
        int repaired = 0;                                                                                            \
        if (pool_code(&u->texts, (const u8 *)text, sizeof text - 1, &repaired) != SK_##name) sn_memory(u);           \
    }
    SN_KEYS(SN_INTERN)
}

static void sn_feed(Unpickler *u, const u8 *p, size_t n) {
    while (n && !u->stopped) {
        size_t part = n < 1 << 20 ? n : 1 << 20;
        if (u->pos) {
            memmove(u->buf, u->buf + u->pos, u->len - u->pos);
            u->base += (int64_t)u->pos;
            u->len -= u->pos;
            u->pos = 0;
        }
        if (u->len + part > u->cap) {
            u8 *buf = realloc(u->buf, u->len + part);
            if (!buf) {
                sn_memory(u);
                return;
            }
            u->buf = buf;
            u->cap = u->len + part;
        }
        memcpy(u->buf + u->len, p, part);
        u->len += part;
        p += part;
        n -= part;
        sn_run(u);
    }
}

static void sn_finish(Unpickler *u) {
    u->eof = 1;
    if (!u->stopped) sn_run(u);
}

static void sn_free(Unpickler *u) {
    for (int t = 0; t < ST_COUNT; t++)
        for (int c = 0; c < SN_MAX_COLUMNS; c++) {
            free(u->columns[t][c].data);
            free(u->local[t][c].data);
            free(u->words[t][c].data);
        }
    for (size_t i = 0; i < u->containers.n; i++) free(VEC(u->containers, Container)[i].items.data);
    free(u->buf);
    free(u->stack.data);
    free(u->marks.data);
    free(u->memo.data);
    free(u->large.data);
    free(u->containers.data);
    free(u->unused.data);
    free(u->blocks_of.data);
    free(u->frame_slots);
    free(u->link_slots);
    free(u->list_slots);
    free(u->list_hash.data);
    free(u->list_leaf.data);
    pool_free(&u->texts);
}
