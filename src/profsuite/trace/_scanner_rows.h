/* One event that was lexed: coercions, and its rows in the groups. */

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
