/* Making a scanner, feeding it, freeing it: what _scanner_python.h and fuzz/ share. */

static void driver_init(Driver *d, int num_pools) {
    d->limit = d->stopped = d->started = -1;
    d->t.num_pools = num_pools;
    for (int i = 0; i < NUM_REMARKS; i++) d->t.remarks[i].first = -1;
}

static void driver_free(Driver *d) {
    Tables *t = &d->t;
    for (int i = 0; i < t->num_groups; i++) {
        for (int c = 0; c < t->groups[i].num_columns; c++) free(t->groups[i].columns[c].data);
        free(t->groups[i].columns);
    }
    for (int i = 0; i < MAX_POOLS; i++) pool_free(&t->pools[i]);
    pool_free(&t->tracks);
    pool_free(&t->member_keys);
    free(t->members);
    for (int i = 0; i < KEY_SLOTS; i++) free(t->keys[i].key);
    for (size_t i = 0; i < d->num_header; i++) {
        free(d->header[i].key);
        free(d->header[i].value);
    }
    free(d->header);
    free(t->bits);
    free(t->text);
    free(d->buf);
}

/* The next group, with room for so many columns; 0 without memory. */
static int add_group(Tables *t, int num_columns) {
    Group *g = &t->groups[t->num_groups];
    g->columns = calloc((size_t)num_columns + 1, sizeof *g->columns);
    if (!g->columns) return 0;
    t->num_groups++;
    return 1;
}

/* The next column of the last group. */
static void add_column(Tables *t, int kind, int pool) {
    static const size_t WIDTH[] = {[K_TIME] = 8, [K_INT] = 8, [K_FLOAT] = 8, [K_BOOL] = 1,
                                   [K_ROW] = 4,  [K_TRACK] = 4, [K_PHASE] = 1, [K_TEXT] = 4};
    int group = t->num_groups - 1, column = t->groups[group].num_columns++;
    t->groups[group].columns[column].width = WIDTH[kind];
    t->column_kind[group][column] = (uint8_t)kind;
    t->column_pool[group][column] = (uint8_t)pool;
    t->field_of_column[group][column] = -1;
}

/* A key of args that fills a column (of a grid: three from that one on); 0 without memory. */
static int add_arg(Tables *t, const u8 *key, size_t len, int group, int column, int trigger, int grid) {
    int field = t->field_of_column[group][column]; /* several keys may fill one column */
    int known = field_of_key(t, key, len);
    if (known >= 0) { /* one key fills a second column */
        t->field_of_column[group][column] = known;
        t->fields[known].shared = 1;
        return 1;
    }
    if (field < 0) {
        field = t->num_fields++;
        Field *f = &t->fields[field];
        f->group = group;
        f->column = column;
        f->kind = t->column_kind[group][column];
        f->pool = t->column_pool[group][column];
        f->trigger = (uint8_t)trigger;
        f->grid = (uint8_t)grid;
        for (int c = 0; c < (grid ? 3 : 1); c++) t->field_of_column[group][column + c] = field;
    }
    size_t at = hash_bytes(key, len) & (KEY_SLOTS - 1);
    while (t->keys[at].key) at = (at + 1) & (KEY_SLOTS - 1);
    if (!(t->keys[at].key = malloc(len + 1))) return 0;
    memcpy(t->keys[at].key, key, len);
    t->keys[at].len = len;
    t->keys[at].field = field;
    return 1;
}

/* Begin among the events at a byte offset; with `seek`, at the next event found. */
static void driver_start_at(Driver *d, int64_t offset, int64_t limit, int array_form, int seek) {
    const int64_t behind = offset < SEEK_BEHIND ? offset : SEEK_BEHIND;
    d->array_form = array_form;
    d->events_seen = 1;
    d->limit = limit;
    if (seek) {
        d->seeking = 1;
        d->base = d->read_at = offset - behind;
        d->mode = M_RESYNC;
        d->fault = d->base;
        d->tried = (size_t)behind;
    } else {
        d->base = d->read_at = offset;
        d->mode = M_EVENTS;
        d->after_event = d->comma = 1;
    }
}

/* Go on after a stop, up to another limit (-1: none). */
static void driver_resume(Driver *d, int64_t limit) {
    d->limit = limit;
    d->stopped = -1;
    d->wait = 0;
}

/* The next bytes of the file. */
static void driver_feed(Driver *d, const u8 *p, size_t n) {
    if (!make_room(d, n)) return;
    if (n) memcpy(d->buf + d->len, p, n);
    received(d, n);
}

/* The file has ended. */
static void driver_finish(Driver *d) {
    d->eof = 1;
    if (make_room(d, 1)) received(d, 0);
}
