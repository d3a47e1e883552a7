/* One event: the tables it goes to, texts, and the grammar from its opening brace to its closing one. */

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
    __m128i high = _mm_cmpeq_epi8(_mm_loadu_si128((const __m128i *)(a + 16)),
                                  _mm_loadu_si128((const __m128i *)(b + 16)));
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
