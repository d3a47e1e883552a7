/* One event: from its opening brace to rows in the groups. */

/* Kinds of columns, as readers/native.py numbers them. */
enum { K_TIME, K_INT, K_FLOAT, K_BOOL, K_ROW, K_TRACK, K_PHASE, K_TEXT };

/* Groups that events' own members fill; the others follow, in the order of fields.GROUPS. */
enum { G_SLICE, G_END, G_FLOW, G_COUNTER, G_INSTANT, G_META, G_MEMORY, G_ARGS };
enum { SLICE_TS, SLICE_DUR, SLICE_TRACK, SLICE_NAME, SLICE_CATEGORY, SLICE_CORRELATION, SLICE_EXTERNAL, SLICE_OFFSET };
enum { END_TS, END_TRACK, END_OFFSET };
enum { FLOW_TS, FLOW_TRACK, FLOW_PHASE, FLOW_NAME, FLOW_CATEGORY, FLOW_ID, FLOW_ID_TEXT, FLOW_OFFSET };
enum { COUNTER_TS, COUNTER_TRACK, COUNTER_NAME, COUNTER_SERIES, COUNTER_VALUE, COUNTER_OFFSET };
enum { INSTANT_TS, INSTANT_TRACK, INSTANT_NAME, INSTANT_CATEGORY, INSTANT_OFFSET };
enum { META_NAME, META_TRACK, META_KEY, META_VALUE };
enum { MEMORY_TS, MEMORY_TRACK, MEMORY_OFFSET, MEMORY_FIRST_ARG };

enum { P_NAME, P_CATEGORY, P_SHAPE, P_TYPES, P_CONCRETE, P_STACK, P_MODULE, P_COLLECTIVE, P_MISC, P_FLOW_ID,
       P_SERIES, P_META_NAME, P_META_KEY, P_META_VALUE };

/* Remarks, as readers/native.py names them. */
enum { R_REPAIRED, R_DROPPED, R_TRUNCATED, R_NEGATIVE, R_MISSING, R_TRAILING, R_UNSUPPORTED, R_HEADER, NUM_REMARKS };

#define MAX_GROUPS 24
#define MAX_COLUMNS 40
#define MAX_FIELDS 128
#define MAX_POOLS 32
#define KEY_SLOTS 1024

typedef struct {
    int group, column; /* the first of three for a grid */
    uint8_t kind, pool, trigger, grid;
    uint8_t shared; /* fills a column of another group too */
} Field;

typedef struct {
    u8 *key;
    size_t len;
    int field;
} KeySlot;

/* Between pid and tid; no byte of UTF-8. */
#define TRACK_MARK 0xFF

typedef struct {
    Value key, value;
    int replaced; /* by a later one of the same key */
} Member;

typedef struct {
    int64_t count, first; /* first byte offset, -1 */
} RemarkCount;

/* Glue: the bytes from the end of one member's value to the start of the next one's, as they were
 * last seen after that member (`,\n    "pid": `).  A writer repeats them, so one comparison stands
 * for white space, comma, key, colon and the look-up of the key.  The same bytes mean the same
 * grammar wherever they stand, so this changes nothing but the time. */
#define MAX_GLUE 32
#define GLUE_WAYS 2
typedef struct {
    u8 bytes[MAX_GLUE];
    uint32_t mask; /* a bit for each byte that counts; 0: empty */
    int16_t len, next; /* next: the key after the glue */
} Glue;

/* Keys, as glue numbers them: those of an event, then those of args. */
enum { KEY_PH, KEY_TS, KEY_ID, KEY_PID, KEY_TID, KEY_CAT, KEY_DUR, KEY_NAME, KEY_ARGS, KEY_OTHER, KEY_FIRST,
       KEY_ARG_FIRST, KEY_ARG_OTHER, KEY_FIELD };
#define GLUE_KEYS (KEY_FIELD + MAX_FIELDS)
#define GLUE_CLASSES 8 /* what follows differs by category */

typedef struct {
    Group groups[MAX_GROUPS];
    uint8_t column_kind[MAX_GROUPS][MAX_COLUMNS], column_pool[MAX_GROUPS][MAX_COLUMNS];
    int num_groups;
    Pool pools[MAX_POOLS];
    int num_pools;
    Pool tracks; /* pid, TRACK_MARK, tid */
    Field fields[MAX_FIELDS];
    int num_fields;
    KeySlot keys[KEY_SLOTS];
    int field_of_column[MAX_GROUPS][MAX_COLUMNS];
    int64_t slices; /* in all, also those already taken */
    int64_t num_events;
    RemarkCount remarks[NUM_REMARKS];
    int64_t unsupported[256];
    uint64_t *bits; /* of lex_nested */
    size_t bits_cap;
    u8 *text;
    size_t text_cap;
    int no_memory;

    /* The event at hand. */
    Value member[KEY_OTHER + 1];
    Value args[MAX_FIELDS];
    int touched[MAX_FIELDS], num_touched;
    const u8 *args_start, *args_end;
    int phase, event_repaired;
    Member *members; /* of args */
    size_t members_cap;
    Pool member_keys;
    int glue_class;
    Glue glue[GLUE_KEYS][GLUE_CLASSES][GLUE_WAYS];
} Tables;

static void remark(Tables *t, int kind, int64_t offset) {
    if (t->remarks[kind].count++ == 0) t->remarks[kind].first = offset;
}

/* ---------------------------------------------------------------- text */
static int hex4(const u8 *p, uint32_t *out) {
    uint32_t x = 0;
    for (int i = 0; i < 4; i++) {
        u8 c = p[i];
        unsigned digit = c - 0u - '0', letter = (c | 32u) - 'a';
        unsigned d = digit < 10 ? digit : letter < 6 ? letter + 10 : 16;
        if (d > 15) return 0;
        x = x << 4 | d;
    }
    *out = x;
    return 1;
}

static u8 *put_utf8(u8 *o, uint32_t x) {
    if (x < 0x80) {
        *o++ = (u8)x;
    } else if (x < 0x800) {
        *o++ = (u8)(0xC0 | x >> 6);
        *o++ = (u8)(0x80 | (x & 0x3F));
    } else if (x < 0x10000) {
        *o++ = (u8)(0xE0 | x >> 12);
        *o++ = (u8)(0x80 | (x >> 6 & 0x3F));
        *o++ = (u8)(0x80 | (x & 0x3F));
    } else {
        *o++ = (u8)(0xF0 | x >> 18);
        *o++ = (u8)(0x80 | (x >> 12 & 0x3F));
        *o++ = (u8)(0x80 | (x >> 6 & 0x3F));
        *o++ = (u8)(0x80 | (x & 0x3F));
    }
    return o;
}

/* A value's text, escapes resolved, in t->text at `at`; the result is never longer. */
static size_t unescape(Tables *t, const Value *v, size_t at) {
    if (at + v->len + 8 > t->text_cap) {
        size_t cap = (at + v->len) * 2 + 256;
        u8 *text = realloc(t->text, cap);
        if (!text) {
            t->no_memory = 1;
            return 0;
        }
        t->text = text;
        t->text_cap = cap;
    }
    const u8 *p = v->p, *end = p + v->len;
    u8 *o = t->text + at;
    if (!v->escaped) {
        memcpy(o, p, v->len);
        return v->len;
    }
    while (p < end) {
        if (*p != '\\') {
            *o++ = *p++;
            continue;
        }
        u8 c = p + 1 < end ? p[1] : 0;
        uint32_t x, y;
        switch (c) {
        case '"': case '\\': case '/': *o++ = c; p += 2; continue;
        case 'b': *o++ = '\b'; p += 2; continue;
        case 'f': *o++ = '\f'; p += 2; continue;
        case 'n': *o++ = '\n'; p += 2; continue;
        case 'r': *o++ = '\r'; p += 2; continue;
        case 't': *o++ = '\t'; p += 2; continue;
        case 'u':
            if (end - p >= 6 && hex4(p + 2, &x)) {
                p += 6;
                if (x >= 0xD800 && x < 0xDC00 && end - p >= 6 && p[0] == '\\' && p[1] == 'u' && hex4(p + 2, &y) &&
                    y >= 0xDC00 && y < 0xE000) {
                    x = 0x10000 + ((x - 0xD800) << 10) + (y - 0xDC00);
                    p += 6;
                } else if (x >= 0xD800 && x < 0xE000) {
                    x = 0xFFFD;
                    t->event_repaired = 1;
                }
                o = put_utf8(o, x);
                continue;
            }
            break;
        default: break;
        }
        *o++ = *p++; /* an unknown escape keeps its backslash */
        t->event_repaired = 1;
    }
    return (size_t)(o - (t->text + at));
}

static int is_null(const Value *v) {
    return v->type == V_NONE || (v->type == V_SCALAR && v->len == 4 && memcmp(v->p, "null", 4) == 0);
}

/* Text of a value: *p and *n; 0 if it is null. */
static int text_of(Tables *t, const Value *v, const u8 **p, size_t *n) {
    if (is_null(v)) return 0;
    if (v->control) t->event_repaired = 1;
    if (v->escaped) {
        *n = unescape(t, v, 0);
        *p = t->text;
    } else {
        *p = v->p;
        *n = v->len;
    }
    return 1;
}

static int32_t intern(Tables *t, int pool, const Value *v) {
    const u8 *p;
    size_t n;
    if (!text_of(t, v, &p, &n)) return -1;
    int32_t code = pool_code(&t->pools[pool], p, n, &t->event_repaired);
    if (code < 0) {
        t->no_memory = 1;
        return -1;
    }
    return code;
}

static const Value EMPTY = {(const u8 *)"", 0, V_STRING, 0, 0};

static int32_t intern_or_empty(Tables *t, int pool, const Value *v) { return intern(t, pool, is_null(v) ? &EMPTY : v); }

/* The number of a new track: p is pid, the mark, tid. */
static int32_t new_track(Tables *t, const u8 *p, size_t pid_len, size_t tid_len) {
    size_t n = pid_len + 1 + tid_len, slot;
    u8 *clean = malloc(3 * n);
    if (!clean) return -2;
    int32_t code = -2;
    size_t m = clean_utf8(p, pid_len, clean);
    clean[m] = TRACK_MARK;
    m += 1 + clean_utf8(p + pid_len + 1, tid_len, clean + m + 1);
    if (m != n || memcmp(p, clean, n) != 0) t->event_repaired = 1;
    uint32_t hash = (uint32_t)hash_bytes(clean, m);
    if (t->tracks.slots || pool_rehash(&t->tracks, 256)) {
        code = pool_find(&t->tracks, clean, m, hash, &slot);
        if (code < 0) code = pool_add(&t->tracks, clean, m, hash, slot);
    }
    free(clean);
    return code;
}

/* The number of the (pid, tid) track. */
static int32_t track_of(Tables *t) {
    const Value *pid = is_null(&t->member[KEY_PID]) ? &EMPTY : &t->member[KEY_PID];
    const Value *tid = is_null(&t->member[KEY_TID]) ? &EMPTY : &t->member[KEY_TID];
    u8 small[128];
    const u8 *p = small;
    size_t n = pid->len, m = tid->len, slot;
    if (!pid->escaped && !tid->escaped && n + m < sizeof small) {
        memcpy(small, pid->p, n);
        small[n] = TRACK_MARK;
        memcpy(small + n + 1, tid->p, m);
    } else {
        n = unescape(t, pid, 0); /* without escapes this only copies */
        if (!t->no_memory) t->text[n] = TRACK_MARK;
        if (!t->no_memory) m = unescape(t, tid, n + 1);
        if (t->no_memory) return 0;
        p = t->text;
    }
    if (pid->control || tid->control) t->event_repaired = 1;
    int32_t code = -1;
    if (t->tracks.slots) code = pool_find(&t->tracks, p, n + 1 + m, (uint32_t)hash_bytes(p, n + 1 + m), &slot);
    if (code < 0) code = new_track(t, p, n, m);
    if (code < 0) {
        t->no_memory = 1;
        return 0;
    }
    return code;
}

/* ---------------------------------------------------------------- grammar */
static int field_of_key(const Tables *t, const u8 *p, size_t n) {
    size_t at = hash_bytes(p, n) & (KEY_SLOTS - 1);
    for (; t->keys[at].key; at = (at + 1) & (KEY_SLOTS - 1))
        if (t->keys[at].len == n && memcmp(t->keys[at].key, p, n) == 0) return t->keys[at].field;
    return -1;
}

/* A key and its colon; *pp is at the key's quote, then at the value. */
static int lex_key(Tables *t, const u8 **pp, const u8 *end, int lenient, Value *key) {
    const u8 *p = *pp + 1;
    int status = lex_string(&p, end, lenient, key, &t->event_repaired);
    if (status) return status;
    p = skip_space(p);
    if (p >= end) return NEED_MORE;
    if (*p != ':') {
        *pp = p;
        return BROKEN;
    }
    p = skip_space(p + 1);
    if (p >= end) return NEED_MORE;
    *pp = p;
    return OK;
}

/* After a member: a comma or the closing brace.  *more says whether another member follows. */
static int lex_after_member(const u8 **pp, const u8 *end, int *more) {
    const u8 *p = skip_space(*pp);
    if (p >= end) return NEED_MORE;
    if (*p == ',') {
        p = skip_space(p + 1);
        if (p >= end) return NEED_MORE;
    } else if (*p != '}') {
        *pp = p;
        return BROKEN;
    }
    *more = *p != '}';
    *pp = *more ? p : p + 1;
    return OK;
}

static inline uint32_t equal_bytes(const u8 *a, const u8 *b) {
#ifdef HAVE_SSE2
    __m128i low = _mm_cmpeq_epi8(_mm_loadu_si128((const __m128i *)a), _mm_loadu_si128((const __m128i *)b));
    __m128i high = _mm_cmpeq_epi8(_mm_loadu_si128((const __m128i *)(a + 16)), _mm_loadu_si128((const __m128i *)(b + 16)));
    return (uint32_t)_mm_movemask_epi8(low) | (uint32_t)_mm_movemask_epi8(high) << 16;
#else
    uint32_t bits = 0;
    for (int i = 0; i < MAX_GLUE; i++) bits |= (uint32_t)(a[i] == b[i]) << i;
    return bits;
#endif
}

/* The key that follows `key` by the glue at p, *pp moved to its value; -1 if the bytes are not known. */
static inline int follow_glue(Tables *t, int key, const u8 **pp, const u8 *end) {
    const Glue *g = t->glue[key][t->glue_class];
    for (int way = 0; way < GLUE_WAYS; way++, g++) {
        if (g->mask && (equal_bytes(*pp, g->bytes) & g->mask) == g->mask && *pp + g->len < end) {
            const u8 *p = skip_space(*pp + g->len); /* there may be more of it than the last time */
            if (p >= end) return -1;
            *pp = p;
            return g->next;
        }
    }
    return -1;
}

static void learn_glue(Tables *t, int key, const u8 *from, const u8 *to, int next) {
    size_t n = (size_t)(to - from);
    if (n > MAX_GLUE || n == 0) return;
    Glue *g = t->glue[key][t->glue_class];
    g[1] = g[0];
    memset(g->bytes, 0, MAX_GLUE);
    memcpy(g->bytes, from, n);
    g->mask = n == 32 ? 0xFFFFFFFFu : (1u << n) - 1;
    g->len = (int16_t)n;
    g->next = (int16_t)next;
}

/* Where the value of an arg goes (written there directly: a copy of a fresh Value stalls). */
static inline Value *arg_slot(Tables *t, int field) {
    if (t->args[field].type == V_NONE) {
        t->args[field].type = V_SCALAR;
        t->touched[t->num_touched++] = field;
    }
    return &t->args[field];
}

static void forget_args(Tables *t) {
    for (int i = 0; i < t->num_touched; i++) t->args[t->touched[i]].type = V_NONE;
    t->num_touched = 0;
}

static int glue_of_field(int field) { return field < 0 ? KEY_ARG_OTHER : KEY_FIELD + field; }

/* A string with its escapes resolved, to be compared; what they repair is no column. */
static const u8 *plain_text(Tables *t, const Value *key, size_t *n) {
    *n = key->len;
    if (!key->escaped) return key->p;
    int repaired = t->event_repaired;
    *n = unescape(t, key, 0);
    t->event_repaired = repaired;
    return t->text;
}

/* The members of args, from after its brace to after its closing one; known keys are kept. */
static int lex_args(Tables *t, const u8 **pp, const u8 *end) {
    const u8 *p = *pp, *from = p;
    int more = 1, status, at = KEY_ARG_FIRST;
    for (;;) {
        int key_number = follow_glue(t, at, &p, end);
        if (key_number < 0) {
            Value key;
            size_t n;
            from = p;
            p = skip_space(p);
            if (p >= end) return NEED_MORE;
            if (at == KEY_ARG_FIRST) {
                if (*p == '}') {
                    *pp = p + 1;
                    return OK;
                }
            } else {
                if ((status = lex_after_member(&p, end, &more))) goto stop;
                if (!more) break;
            }
            if (*p != '"') {
                status = BROKEN;
                goto stop;
            }
            if ((status = lex_key(t, &p, end, 1, &key))) goto stop;
            const u8 *k = plain_text(t, &key, &n);
            key_number = glue_of_field(field_of_key(t, k, n));
            if (!t->event_repaired) learn_glue(t, at, from, p, key_number);
        }
        Value ignored, *slot = key_number >= KEY_FIELD ? arg_slot(t, key_number - KEY_FIELD) : &ignored;
        if ((status = lex_value(&p, end, 1, slot, &t->event_repaired, &t->bits, &t->bits_cap))) goto stop;
        at = key_number;
    }
    *pp = p;
    return OK;
stop:
    *pp = p;
    return status;
}

static int key_of_member(const u8 *p, size_t n) {
    switch (n) {
    case 2:
        if (p[0] == 'p' && p[1] == 'h') return KEY_PH;
        if (p[0] == 't' && p[1] == 's') return KEY_TS;
        if (p[0] == 'i' && p[1] == 'd') return KEY_ID;
        break;
    case 3:
        if (memcmp(p, "pid", 3) == 0) return KEY_PID;
        if (memcmp(p, "tid", 3) == 0) return KEY_TID;
        if (memcmp(p, "cat", 3) == 0) return KEY_CAT;
        if (memcmp(p, "dur", 3) == 0) return KEY_DUR;
        break;
    case 4:
        if (memcmp(p, "name", 4) == 0) return KEY_NAME;
        if (memcmp(p, "args", 4) == 0) return KEY_ARGS;
        break;
    default: break;
    }
    return KEY_OTHER;
}

/* Lex one event, p at its brace.  OK: *pp after it.  BROKEN: *pp where it broke. */
static int lex_event(Tables *t, const u8 **pp, const u8 *end) {
    const u8 *p = *pp + 1, *from;
    int more = 1, status, at = KEY_FIRST;
    for (int i = 0; i < KEY_ARGS; i++) t->member[i].type = V_NONE;
    t->args_start = NULL;
    t->event_repaired = 0;
    t->glue_class = 0;
    forget_args(t);
    for (;;) {
        int key_number = follow_glue(t, at, &p, end);
        if (key_number < 0) {
            Value key;
            size_t n;
            from = p;
            p = skip_space(p);
            if (p >= end) return NEED_MORE;
            if (at == KEY_FIRST) {
                more = *p != '}'; /* without a member there is no ph */
            } else if ((status = lex_after_member(&p, end, &more))) {
                goto stop;
            }
            if (!more) break;
            if (*p != '"') {
                status = BROKEN;
                goto stop;
            }
            if ((status = lex_key(t, &p, end, 0, &key))) goto stop;
            const u8 *k = plain_text(t, &key, &n);
            key_number = key_of_member(k, n);
            learn_glue(t, at, from, p, key_number);
        }
        if (key_number == KEY_ARGS) {
            forget_args(t);
            t->args_start = NULL;
            if (*p == '{') {
                t->args_start = p++;
                if ((status = lex_args(t, &p, end))) goto stop;
                t->args_end = p;
            } else {
                Value ignored;
                if ((status = lex_value(&p, end, 1, &ignored, &t->event_repaired, &t->bits, &t->bits_cap))) goto stop;
            }
        } else {
            Value *v = &t->member[key_number]; /* KEY_OTHER has a place of its own, never read */
            if ((status = lex_value(&p, end, 0, v, &t->event_repaired, &t->bits, &t->bits_cap))) goto stop;
            if (key_number == KEY_CAT && v->len)
                t->glue_class = (v->len + v->p[0] * 3u + v->p[v->len - 1]) % GLUE_CLASSES;
        }
        at = key_number;
    }
    *pp = p;
    const Value *ph = &t->member[KEY_PH];
    if (ph->type != V_STRING) return BROKEN;
    size_t n;
    const u8 *phase = plain_text(t, ph, &n);
    if (n != 1 || *phase >= 0x80) return BROKEN;
    t->phase = *phase;
    return OK;
stop:
    *pp = p;
    return status;
}

/* ---------------------------------------------------------------- rows */
/* A value to be read as a number: escapes resolved. */
static const Value *plain_number(Tables *t, const Value *v, Value *resolved) {
    if (v->type != V_STRING || !v->escaped) return v;
    size_t n;
    resolved->p = plain_text(t, v, &n);
    resolved->len = (uint32_t)n;
    resolved->type = V_STRING;
    return resolved;
}

static int time_of(Tables *t, const Value *v, int64_t *out) {
    Value resolved;
    return parse_time(plain_number(t, v, &resolved), out);
}

static int int_of(Tables *t, const Value *v, int64_t *out) {
    Value resolved;
    return parse_int(plain_number(t, v, &resolved), out);
}

/* A value but a text, which becomes a code only where there is a row for it. */
static int coerce(Tables *t, const Field *f, const Value *v, int64_t *i, double *d) {
    Value resolved;
    switch (f->kind) {
    case K_TIME: return time_of(t, v, i);
    case K_INT: return int_of(t, v, i);
    case K_FLOAT: return parse_double(plain_number(t, v, &resolved), d);
    case K_BOOL:
        if (v->type != V_SCALAR) return 0;
        if (v->len == 4 && memcmp(v->p, "true", 4) == 0) return *i = 1, 1;
        if (v->len == 5 && memcmp(v->p, "false", 5) == 0) return *i = 0, 1;
        return 0;
    case K_TEXT: return !is_null(v);
    default: return 0;
    }
}

/* The first three elements of a grid array, which was lexed before; whether one is an int. */
static int coerce_grid(Tables *t, const Value *v, int64_t out[3]) {
    out[0] = out[1] = out[2] = INT64_MIN;
    if (v->type != V_ARRAY) return 0;
    const u8 *p = v->p + 1, *end = v->p + v->len; /* the closing bracket counts: it ends a string */
    int found = 0, ignored = 0;
    for (int i = 0; i < 3; i++) {
        Value element;
        p = skip_space(p);
        if (lex_value(&p, end, 1, &element, &ignored, &t->bits, &t->bits_cap)) break;
        if (int_of(t, &element, &out[i])) found = 1;
        else out[i] = INT64_MIN;
        p = skip_space(p);
        if (*p != ',') break;
        p++;
    }
    return found;
}

static inline double nan_value(void) {
    uint64_t bits = 0x7FF8000000000000ull;
    double x;
    memcpy(&x, &bits, 8);
    return x;
}

static void put_null(Group *g, int column, int kind) {
    switch (kind) {
    case K_TIME: case K_INT: PUT(g, column, int64_t, INT64_MIN); break;
    case K_FLOAT: PUT(g, column, double, nan_value()); break;
    case K_BOOL: case K_PHASE: PUT(g, column, int8_t, -1); break;
    default: PUT(g, column, int32_t, -1); break;
    }
}

/* Rows of the groups that args fill: of a slice in `row` (ts unused), or of a memory event (row unused).
 * Returns whether there are any. */
static int push_args(Tables *t, int is_memory, int64_t row, int64_t ts, int64_t offset) {
    int64_t ints[MAX_FIELDS];
    double doubles[MAX_FIELDS];
    int64_t grids[MAX_FIELDS][3];
    uint8_t has[MAX_FIELDS];
    uint32_t rows = 0;
    for (int i = 0; i < t->num_touched; i++) {
        int field = t->touched[i];
        const Field *f = &t->fields[field];
        has[field] = 0;
        if (!f->shared && (f->group == G_SLICE || (f->group == G_MEMORY) != is_memory)) continue;
        has[field] = (uint8_t)(f->grid ? coerce_grid(t, &t->args[field], grids[field])
                                       : coerce(t, f, &t->args[field], &ints[field], &doubles[field]));
        if (has[field] && f->trigger) rows |= 1u << f->group; /* a shared field is no trigger */
    }
    for (int i = 0; rows && i < t->num_touched; i++) {
        int field = t->touched[i];
        const Field *f = &t->fields[field];
        if (f->kind == K_TEXT && has[field] && rows >> f->group & 1) ints[field] = intern(t, f->pool, &t->args[field]);
    }
    int any = rows != 0;
    for (int group = 0; rows; group++, rows >>= 1) {
        if (!(rows & 1)) continue;
        Group *g = &t->groups[group];
        if (!group_reserve(g)) {
            t->no_memory = 1;
            return any;
        }
        int first = 1;
        if (group == G_MEMORY) {
            PUT(g, MEMORY_TS, int64_t, ts);
            PUT(g, MEMORY_TRACK, int32_t, track_of(t));
            PUT(g, MEMORY_OFFSET, int64_t, offset);
            first = MEMORY_FIRST_ARG;
        } else {
            PUT(g, 0, int32_t, row);
        }
        for (int c = first; c < g->num_columns; c++) {
            int field = t->field_of_column[group][c];
            int kind = t->column_kind[group][c];
            const Field *f = &t->fields[field < 0 ? 0 : field];
            if (field < 0 || t->args[field].type == V_NONE || !has[field]) put_null(g, c, kind);
            else if (f->grid) PUT(g, c, int64_t, grids[field][c - f->column]);
            else if (kind == K_FLOAT) PUT(g, c, double, doubles[field]);
            else if (kind == K_BOOL) PUT(g, c, int8_t, ints[field]);
            else if (kind == K_TEXT) PUT(g, c, int32_t, ints[field]);
            else PUT(g, c, int64_t, ints[field]);
        }
        g->rows++;
    }
    return any;
}

static Group *reserved(Tables *t, int group) {
    Group *g = &t->groups[group];
    if (group_reserve(g)) return g;
    t->no_memory = 1;
    return NULL;
}

/* The members of args, which were lexed before, in t->members; how many. */
static size_t list_members(Tables *t) {
    const u8 *p = skip_space(t->args_start + 1), *end = t->args_end + 1;
    size_t n = 0;
    int ignored = t->event_repaired;
    while (*p != '}') {
        if (n == t->members_cap) {
            size_t cap = n ? n * 2 : 16;
            Member *members = realloc(t->members, cap * sizeof *members);
            if (!members) {
                t->no_memory = 1;
                return 0;
            }
            t->members = members;
            t->members_cap = cap;
        }
        Member *m = &t->members[n];
        m->replaced = 0;
        if (lex_key(t, &p, end, 1, &m->key) ||
            lex_value(&p, end, 1, &m->value, &ignored, &t->bits, &t->bits_cap))
            break;
        n++;
        p = skip_space(p);
        if (*p == ',') p = skip_space(p + 1);
    }
    /* From the last to the first: of each key the one that is met first counts. */
    if (n > 1) pool_clear(&t->member_keys);
    for (size_t i = n; n > 1 && i-- > 0;) {
        size_t length, known = t->member_keys.count;
        const u8 *key = plain_text(t, &t->members[i].key, &length);
        if (pool_code(&t->member_keys, key, length, &ignored) < 0) t->no_memory = 1;
        t->members[i].replaced = t->member_keys.count == known;
    }
    return n;
}

/* Rows of a counter. */
static void push_counter(Tables *t, int64_t ts, int64_t offset) {
    size_t n = t->args_start ? list_members(t) : 0;
    int32_t track = -1, name = -1;
    for (size_t i = 0; i < n && !t->no_memory; i++) {
        const Member *m = &t->members[i];
        double x;
        if (m->replaced || m->value.type != V_SCALAR || !parse_double(&m->value, &x)) continue;
        if (track < 0) {
            track = track_of(t);
            name = intern_or_empty(t, P_NAME, &t->member[KEY_NAME]);
        }
        int32_t series = intern(t, P_SERIES, &m->key);
        Group *g = reserved(t, G_COUNTER);
        if (!g) return;
        PUT(g, COUNTER_TS, int64_t, ts);
        PUT(g, COUNTER_TRACK, int32_t, track);
        PUT(g, COUNTER_NAME, int32_t, name);
        PUT(g, COUNTER_SERIES, int32_t, series);
        PUT(g, COUNTER_VALUE, double, x);
        PUT(g, COUNTER_OFFSET, int64_t, offset);
        g->rows++;
    }
}

/* Rows of metadata. */
static void push_metadata(Tables *t) {
    size_t n = t->args_start ? list_members(t) : 0;
    int32_t track = -1, name = -1;
    for (size_t i = 0; i < n && !t->no_memory; i++) {
        const Member *m = &t->members[i];
        if (m->replaced || is_null(&m->value)) continue;
        if (track < 0) {
            track = track_of(t);
            name = intern_or_empty(t, P_META_NAME, &t->member[KEY_NAME]);
        }
        int32_t key = intern(t, P_META_KEY, &m->key), value = intern(t, P_META_VALUE, &m->value);
        Group *g = reserved(t, G_META);
        if (!g) return;
        PUT(g, META_NAME, int32_t, name);
        PUT(g, META_TRACK, int32_t, track);
        PUT(g, META_KEY, int32_t, key);
        PUT(g, META_VALUE, int32_t, value);
        g->rows++;
    }
}

static int64_t int_arg(Tables *t, int column) {
    int field = t->field_of_column[G_SLICE][column];
    int64_t x;
    return field >= 0 && t->args[field].type != V_NONE && int_of(t, &t->args[field], &x) ? x : INT64_MIN;
}

/* Is this the text that is written so without escapes? */
static int is_text(Tables *t, const Value *v, const char *text, size_t len) {
    size_t n;
    if (v->type == V_NONE) return 0;
    const u8 *p = plain_text(t, v, &n);
    return n == len && memcmp(p, text, n) == 0;
}

/* Rows of the event that lex_event read; `offset` is its place in the file. */
static void push_event(Tables *t, int64_t offset) {
    const int ph = t->phase;
    int64_t ts = INT64_MIN, dur, id = INT64_MIN;
    Group *g;
    t->num_events++;
    if (ph != 'M' && !time_of(t, &t->member[KEY_TS], &ts)) {
        remark(t, R_DROPPED, offset);
        return;
    }
    switch (ph) {
    case 'X': case 'B':
        if (ph == 'B') {
            dur = INT64_MIN; /* open: matched with its E by assemble */
        } else if (!time_of(t, &t->member[KEY_DUR], &dur)) {
            dur = 0;
            remark(t, R_MISSING, offset);
        } else if (dur < 0) {
            dur = 0;
            remark(t, R_NEGATIVE, offset);
        }
        if (!(g = reserved(t, G_SLICE))) return;
        PUT(g, SLICE_TS, int64_t, ts);
        PUT(g, SLICE_DUR, int64_t, dur);
        PUT(g, SLICE_TRACK, int32_t, track_of(t));
        PUT(g, SLICE_NAME, int32_t, intern_or_empty(t, P_NAME, &t->member[KEY_NAME]));
        PUT(g, SLICE_CATEGORY, int32_t, intern_or_empty(t, P_CATEGORY, &t->member[KEY_CAT]));
        PUT(g, SLICE_CORRELATION, int64_t, int_arg(t, SLICE_CORRELATION));
        PUT(g, SLICE_EXTERNAL, int64_t, int_arg(t, SLICE_EXTERNAL));
        PUT(g, SLICE_OFFSET, int64_t, offset);
        g->rows++;
        if (t->num_touched) push_args(t, 0, t->slices, ts, offset);
        t->slices++;
        break;
    case 'E':
        if (!(g = reserved(t, G_END))) return;
        PUT(g, END_TS, int64_t, ts);
        PUT(g, END_TRACK, int32_t, track_of(t));
        PUT(g, END_OFFSET, int64_t, offset);
        g->rows++;
        break;
    case 's': case 't': case 'f':
        if (is_null(&t->member[KEY_ID])) {
            remark(t, R_DROPPED, offset);
            return;
        }
        if (!(g = reserved(t, G_FLOW))) return;
        PUT(g, FLOW_TS, int64_t, ts);
        PUT(g, FLOW_TRACK, int32_t, track_of(t));
        PUT(g, FLOW_PHASE, int8_t, ph);
        PUT(g, FLOW_NAME, int32_t, intern_or_empty(t, P_NAME, &t->member[KEY_NAME]));
        PUT(g, FLOW_CATEGORY, int32_t, intern_or_empty(t, P_CATEGORY, &t->member[KEY_CAT]));
        int is_int = int_of(t, &t->member[KEY_ID], &id);
        PUT(g, FLOW_ID, int64_t, is_int ? id : INT64_MIN);
        PUT(g, FLOW_ID_TEXT, int32_t, is_int ? -1 : intern(t, P_FLOW_ID, &t->member[KEY_ID]));
        PUT(g, FLOW_OFFSET, int64_t, offset);
        g->rows++;
        break;
    case 'i': case 'I': case 'R':
        if (t->num_touched && is_text(t, &t->member[KEY_NAME], "[memory]", 8) &&
            push_args(t, 1, 0, ts, offset))
            break;
        if (!(g = reserved(t, G_INSTANT))) return;
        PUT(g, INSTANT_TS, int64_t, ts);
        PUT(g, INSTANT_TRACK, int32_t, track_of(t));
        PUT(g, INSTANT_NAME, int32_t, intern_or_empty(t, P_NAME, &t->member[KEY_NAME]));
        PUT(g, INSTANT_CATEGORY, int32_t, intern_or_empty(t, P_CATEGORY, &t->member[KEY_CAT]));
        PUT(g, INSTANT_OFFSET, int64_t, offset);
        g->rows++;
        break;
    case 'C': push_counter(t, ts, offset); break;
    case 'M': push_metadata(t); break;
    default:
        t->unsupported[ph]++;
        remark(t, R_UNSUPPORTED, offset);
        break;
    }
    if (t->event_repaired) remark(t, R_REPAIRED, offset);
}
