/* The driver: owns the buffer, finds events, recovers from broken ones, can stop at a limit. */

enum { M_START, M_TOP, M_EVENTS, M_GARBAGE, M_RESYNC, M_FIND_EVENTS, M_DONE };

#ifndef MAX_EVENT /* fuzz/ sets the limits low */
#define MAX_EVENT (64u << 20) /* also of a top-level member */
#define MAX_HEADER_VALUE (16u << 20)
#define MAX_HEADER 100000 /* before the events, and after them */
#define RESYNC_BUDGET (16u << 20)
#define KEEP_BEHIND (64u << 20)
#define SEEK_BEHIND 4096
#endif

typedef struct {
    u8 *key, *value;
    size_t key_len, value_len;
} HeaderItem;

typedef struct {
    Tables t;
    u8 *buf;
    size_t len, cap;   /* bytes held */
    size_t pos;        /* where work goes on */
    int64_t base;      /* file offset of buf[0] */
    size_t wait;       /* do not try again before this many bytes lie behind pos */
    int mode;
    int array_form;    /* the top level is the array itself */
    int events_seen;   /* a traceEvents array was found */
    int after_event;   /* an event was just read ... */
    int comma;         /* ... and a comma since */
    int ran_out;       /* resynchronising because data ended inside an event */
    int64_t fault;     /* file offset of the event that broke */
    size_t tried;      /* resync: next candidate is looked for from here (index) */
    uint64_t spent;    /* resync: bytes spent on failed attempts */
    int64_t limit;     /* stop before an event that starts at or after this offset; -1: none */
    int64_t stopped;   /* the offset it stopped at, -1 */
    int given_up;      /* the rest after the events does not parse: no trailing data */
    int eof;
    int seeking;       /* looking for the first event of a part of the file; nothing was broken */
    int64_t started;   /* the event that this found, -1 */
    int64_t read_at;   /* file offset of the next read */
    HeaderItem *header;
    size_t num_header, header_cap;
    size_t header_before; /* of them: before the events */
    volatile int64_t position; /* for progress */
    const char *error;
} Driver;

static void header_add(Driver *d, const Value *key, const Value *value) {
    Tables *t = &d->t;
    if (value->len > MAX_HEADER_VALUE || d->num_header - d->header_before >= MAX_HEADER) {
        remark(t, R_HEADER, d->base + (key->p - 1 - d->buf));
        return;
    }
    if (d->num_header == d->header_cap) {
        size_t cap = d->header_cap ? d->header_cap * 2 : 32;
        HeaderItem *items = realloc(d->header, cap * sizeof *items);
        if (!items) {
            t->no_memory = 1;
            return;
        }
        d->header = items;
        d->header_cap = cap;
    }
    HeaderItem *item = &d->header[d->num_header];
    /* The whole token, quotes included: the header keeps raw JSON. */
    const u8 *p = value->p;
    size_t n = value->len;
    if (value->type == V_STRING) p--, n += 2;
    size_t m = unescape(t, key, 0);
    item->key = malloc(m + 1);
    item->value = malloc(n + 1);
    if (!item->key || !item->value || t->no_memory) {
        free(item->key);
        free(item->value);
        t->no_memory = 1;
        return;
    }
    memcpy(item->key, t->text, m);
    memcpy(item->value, p, n);
    item->key_len = m;
    item->value_len = n;
    d->num_header++;
}

/* Where the lexing of what starts at index `at` ends: what is longer is broken, however it was fed. */
static inline const u8 *longest(const Driver *d, size_t at) {
    return d->buf + (d->len - at > MAX_EVENT ? at + MAX_EVENT : d->len);
}

/* May what starts at index `at` and ran out of data go on in what is not there yet? */
static inline int may_go_on(const Driver *d, size_t at) { return !d->eof && d->len - at <= MAX_EVENT; }

/* One member of the top-level object at *pp (its quote); sets d->mode for the events.  `dry`: only look. */
static int top_member(Driver *d, const u8 **pp, int dry) {
    Tables *t = &d->t;
    const u8 *p = *pp, *end = longest(d, (size_t)(p - d->buf));
    Value key, value;
    int repaired = 0, status;
    size_t n;
    p++;
    if ((status = lex_string(&p, end, 0, &key, &repaired))) goto stop;
    p = skip_space(p);
    if (p >= end) return NEED_MORE;
    if (*p != ':') {
        status = BROKEN;
        goto stop;
    }
    p = skip_space(p + 1);
    if (p >= end) return NEED_MORE;
    const u8 *name = plain_text(t, &key, &n);
    int is_events = n == 11 && memcmp(name, "traceEvents", 11) == 0;
    if (*p == '[' && is_events) {
        if (dry) return BROKEN;
        d->mode = M_EVENTS;
        d->events_seen = 1;
        d->header_before = d->num_header;
        d->after_event = d->comma = 0;
        *pp = p + 1;
        return OK;
    }
    if ((status = lex_value(&p, end, 1, &value, &repaired, &t->bits, &t->bits_cap))) goto stop;
    /* A scalar may go on in the next block; after any value something must follow. */
    const u8 *next = skip_space(p);
    if (next >= end) return NEED_MORE;
    if (*next != ',' && *next != '}') {
        p = next;
        status = BROKEN;
        goto stop;
    }
    if (!dry) {
        if (repaired) remark(t, R_REPAIRED, d->base + (*pp - d->buf));
        if (!is_events) header_add(d, &key, &value);
    }
    *pp = p;
    return OK;
stop:
    if (status == BROKEN) *pp = p;
    return status;
}

/* From after the array's bracket: does the rest parse as top-level members up to the end of the file? */
static int tail_parses(Driver *d, size_t at, uint64_t *spent) {
    const u8 *start = d->buf + at, *p = start, *end = d->buf + d->len;
    int good = 0;
    for (;;) {
        p = skip_space(p);
        if (p >= end) {
            good = d->array_form;
            break;
        }
        if (d->array_form) break;
        if (*p == ',') {
            p++;
        } else if (*p == '}') {
            good = skip_space(p + 1) >= end;
            break;
        } else if (*p != '"' || top_member(d, &p, 1) != OK) {
            break;
        }
    }
    *spent += (uint64_t)(p - start) + 1;
    return good;
}

/* Is the byte before index i, white space left out, one after which an event may stand? */
static int event_may_start(const Driver *d, size_t i) {
    size_t last = i > KEEP_BEHIND ? i - KEEP_BEHIND : 0;
    while (i > last) {
        u8 c = d->buf[--i];
        if (!is_space(c)) return c == ',' || c == '[' || c == ']' || c == '}';
    }
    return 0;
}

static void start_resync(Driver *d, size_t at, int ran_out) {
    d->mode = M_RESYNC;
    d->ran_out = ran_out;
    d->fault = d->base + (int64_t)at;
    d->tried = at + 1;
    d->spent = 0;
    d->wait = 0;
}

/* An event was found at index `at` (already lexed, ends at `next`): rows, or stop at the limit. */
static int accept_event(Driver *d, size_t at, size_t next) {
    int64_t offset = d->base + (int64_t)at;
    if (d->limit >= 0 && offset >= d->limit) {
        d->stopped = offset;
        d->pos = at;
        return 0;
    }
    push_event(&d->t, offset);
    d->pos = next;
    d->after_event = 1;
    d->comma = 0;
    d->mode = M_EVENTS;
    return 1;
}

/* What lies far before the next place to be looked at is let go. */
static void resync_wait(Driver *d, size_t wait) {
    size_t keep = d->tried > KEEP_BEHIND ? d->tried - KEEP_BEHIND : 0;
    if (keep > d->pos) d->pos = keep;
    d->wait = d->tried - d->pos + wait;
}

/* Returns 1 when it made progress, 0 when it needs data (or stopped). */
static int step_resync(Driver *d) {
    while (d->tried < d->len) {
        u8 *brace = memchr(d->buf + d->tried, '{', d->len - d->tried);
        if (!brace) {
            d->tried = d->len;
            break;
        }
        size_t at = (size_t)(brace - d->buf);
        if (!event_may_start(d, at)) {
            d->tried = at + 1;
            continue;
        }
        const u8 *p = brace, *end = longest(d, at);
        int status = lex_event(&d->t, &p, end);
        if (status == NEED_MORE) {
            d->tried = at;
            if (may_go_on(d, at)) {
                resync_wait(d, 2 * (d->len - at));
                return 0;
            }
            status = BROKEN;
            p = end;
        }
        if (status == OK && d->seeking) {
            d->seeking = 0;
            d->started = d->base + (int64_t)at;
            d->after_event = d->comma = 1;
            return accept_event(d, at, (size_t)(p - d->buf));
        }
        if (status == OK) {
            if (d->limit >= 0 && d->base + (int64_t)at >= d->limit) {
                /* the fault belongs to this part, the event to the next */
                remark(&d->t, R_DROPPED, d->fault);
                d->t.num_events++;
                d->after_event = d->comma = 1;
                d->mode = M_EVENTS;
                return accept_event(d, at, at);
            }
            remark(&d->t, R_DROPPED, d->fault);
            d->t.num_events++;
            return accept_event(d, at, (size_t)(p - d->buf));
        }
        d->spent += (uint64_t)(p - brace);
        uint64_t advanced = (uint64_t)(d->base + (int64_t)at - d->fault);
        d->tried = d->spent > RESYNC_BUDGET + 4 * advanced && p > brace + 1 ? (size_t)(p - d->buf) : at + 1;
    }
    if (!d->eof) {
        resync_wait(d, 1);
        return 0;
    }
    /* No event follows.  Where does the array end? */
    if (d->seeking) {
        /* the part before this one will find out */
    } else if (d->ran_out) {
        remark(&d->t, R_TRUNCATED, d->fault);
    } else {
        remark(&d->t, R_DROPPED, d->fault);
        d->t.num_events++;
        size_t from = d->len > KEEP_BEHIND ? d->len - KEEP_BEHIND : 0;
        if (d->fault > d->base + (int64_t)from) from = (size_t)(d->fault - d->base);
        uint64_t spent = 0;
        while (from < d->len && spent < RESYNC_BUDGET) {
            u8 *bracket = memchr(d->buf + from, ']', d->len - from);
            if (!bracket) break;
            from = (size_t)(bracket - d->buf) + 1;
            if (tail_parses(d, from, &spent)) {
                d->pos = from;
                d->mode = d->array_form ? M_DONE : M_TOP;
                return 1;
            }
        }
        if (!d->array_form) remark(&d->t, R_TRUNCATED, d->base + (int64_t)d->len);
    }
    d->pos = d->len;
    d->mode = M_DONE;
    return 1;
}

/* The hot loop. */
static int step_events(Driver *d) {
    const u8 *end = d->buf + d->len;
    for (;;) {
        const u8 *p = skip_space(d->buf + d->pos);
        while (p < end && *p == ',') {
            d->comma = 1;
            p = skip_space(p + 1);
        }
        if (p >= end) {
            d->pos = d->len;
            d->wait = 1;
            if (!d->eof) return 0;
            if (!d->array_form) remark(&d->t, R_TRUNCATED, d->base + (int64_t)d->len);
            d->mode = M_DONE;
            return 1;
        }
        size_t at = (size_t)(p - d->buf);
        d->pos = at;
        if (*p == '{') {
            const u8 *next = p;
            int status = lex_event(&d->t, &next, longest(d, at));
            if (status == NEED_MORE && may_go_on(d, at)) {
                d->wait = 2 * (d->len - at);
                return 0;
            }
            if (status != OK) {
                if (d->limit >= 0 && d->base + (int64_t)at >= d->limit) {
                    d->stopped = d->base + (int64_t)at;
                    return 0;
                }
                start_resync(d, at, status == NEED_MORE && d->len - at <= MAX_EVENT);
                return 1;
            }
            if (d->after_event && !d->comma) d->t.event_repaired = 1;
            if (!accept_event(d, at, (size_t)(next - d->buf))) return 0;
            if (d->t.no_memory) return 0;
        } else if (*p == ']') {
            d->pos = at + 1;
            d->mode = d->array_form ? M_DONE : M_TOP;
            return 1;
        } else {
            remark(&d->t, R_DROPPED, d->base + (int64_t)at);
            d->mode = M_GARBAGE;
            return 1;
        }
    }
}

static int step_garbage(Driver *d) {
    while (d->pos < d->len && d->buf[d->pos] != '{' && d->buf[d->pos] != ']') d->pos++;
    if (d->pos < d->len) {
        d->mode = M_EVENTS;
        d->comma = 1;
        return 1;
    }
    d->wait = 1;
    if (!d->eof) return 0;
    d->mode = M_EVENTS; /* which says what the end means */
    return 1;
}

static int step_start(Driver *d) {
    if (d->len < 3 && !d->eof) {
        d->wait = 3;
        return 0;
    }
    size_t at = d->len >= 3 && memcmp(d->buf, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    const u8 *p = skip_space(d->buf + at), *end = d->buf + d->len;
    if (p >= end) {
        d->wait = d->len + 1;
        if (!d->eof) return 0;
        d->error = "empty";
        d->mode = M_DONE;
        return 1;
    }
    if (*p == '[') {
        d->array_form = d->events_seen = 1;
        d->after_event = d->comma = 0;
        d->mode = M_EVENTS;
    } else if (*p == '{') {
        d->mode = M_TOP;
    } else {
        d->error = "not json";
        d->mode = M_DONE;
    }
    d->pos = (size_t)(p - d->buf) + 1;
    return 1;
}

static int step_top(Driver *d) {
    const u8 *end = d->buf + d->len;
    const u8 *p = skip_space(d->buf + d->pos);
    while (p < end && *p == ',') p = skip_space(p + 1);
    d->pos = p < end ? (size_t)(p - d->buf) : d->len;
    if (p >= end) {
        d->wait = 1;
        if (!d->eof) return 0;
        if (d->events_seen) remark(&d->t, R_TRUNCATED, d->base + (int64_t)d->len);
        d->mode = M_DONE;
        return 1;
    }
    if (*p == '}') {
        d->pos++;
        d->mode = M_DONE;
        return 1;
    }
    int status = BROKEN;
    const u8 *next = p;
    if (*p == '"') {
        status = top_member(d, &next, 0);
        if (status == OK) {
            d->pos = (size_t)(next - d->buf);
            return 1;
        }
        if (status == NEED_MORE) {
            size_t held = d->len - d->pos;
            if (may_go_on(d, d->pos)) {
                d->wait = 2 * held;
                return 0;
            }
            if (held <= MAX_EVENT && d->events_seen) {
                remark(&d->t, R_TRUNCATED, d->base + (int64_t)d->pos);
                d->pos = d->len;
                d->mode = M_DONE;
                return 1;
            }
        }
    }
    if (d->events_seen) {
        remark(&d->t, R_HEADER, d->base + (int64_t)d->pos);
        d->pos = d->len;
        d->mode = M_DONE;
        d->given_up = 1;
        return 1;
    }
    d->fault = d->base + (int64_t)d->pos;
    d->mode = M_FIND_EVENTS;
    return 1;
}

/* After a broken header: the next "traceEvents": [ */
static int step_find_events(Driver *d) {
    static const char KEY[] = "\"traceEvents\"";
    const size_t n = sizeof KEY - 1;
    while (d->pos < d->len) {
        u8 *quote = memchr(d->buf + d->pos, '"', d->len - d->pos);
        if (!quote) {
            d->pos = d->len;
            break;
        }
        d->pos = (size_t)(quote - d->buf);
        const u8 *p = quote + n, *end = longest(d, d->pos);
        int begun = memcmp(quote, KEY, d->len - d->pos < n ? d->len - d->pos : n) == 0;
        if (begun && p < end) {
            p = skip_space(p);
            begun = p >= end || *p == ':';
            if (begun && p < end) p = skip_space(p + 1);
            if (begun && p < end && *p == '[') {
                remark(&d->t, R_REPAIRED, d->fault);
                d->pos = (size_t)(p - d->buf) + 1;
                d->events_seen = 1;
                d->header_before = d->num_header;
                d->after_event = d->comma = 0;
                d->mode = M_EVENTS;
                return 1;
            }
        }
        if (begun && p >= end && may_go_on(d, d->pos)) {
            d->wait = 2 * (d->len - d->pos);
            return 0;
        }
        d->pos++;
    }
    d->wait = 1;
    if (!d->eof) return 0;
    d->mode = M_DONE;
    return 1;
}

static int step_done(Driver *d) {
    const u8 *end = d->buf + d->len, *p = skip_space(d->buf + d->pos);
    if (p < end && !d->given_up && !d->error && d->t.remarks[R_TRAILING].count == 0)
        remark(&d->t, R_TRAILING, d->base + (p - d->buf));
    d->pos = d->len;
    d->wait = 1;
    return 0;
}

/* Work on what the buffer holds. */
static void run(Driver *d) {
    int more = 1;
    while (more && !d->t.no_memory && d->stopped < 0) {
        switch (d->mode) {
        case M_START: more = step_start(d); break;
        case M_TOP: more = step_top(d); break;
        case M_EVENTS: more = step_events(d); break;
        case M_GARBAGE: more = step_garbage(d); break;
        case M_RESYNC: more = step_resync(d); break;
        case M_FIND_EVENTS: more = step_find_events(d); break;
        default: more = step_done(d); break;
        }
    }
    d->position = d->base + (int64_t)d->pos;
}

/* Room for n more bytes after len, what was worked off moved out (where that is more than what stays: else
 * a large rest would be moved for every block). */
static int make_room(Driver *d, size_t n) {
    if (d->pos && d->pos >= d->len - d->pos) {
        memmove(d->buf, d->buf + d->pos, d->len - d->pos);
        d->base += (int64_t)d->pos;
        d->len -= d->pos;
        d->tried = d->tried > d->pos ? d->tried - d->pos : 0;
        d->pos = 0;
    }
    if (d->len + n + PADDING > d->cap) {
        size_t cap = d->len + n + PADDING;
        if (cap < d->cap + d->cap / 2) cap = d->cap + d->cap / 2;
        u8 *buf = realloc(d->buf, cap);
        if (!buf) {
            d->t.no_memory = 1;
            return 0;
        }
        d->buf = buf;
        d->cap = cap;
    }
    return 1;
}

static void received(Driver *d, size_t n) {
    d->len += n;
    memset(d->buf + d->len, '"', PADDING);
    if (d->len - d->pos >= d->wait || d->eof) run(d);
}
