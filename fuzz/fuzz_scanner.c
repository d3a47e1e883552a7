/* libFuzzer harness of the C scanner and of nest: what an input gives must not depend on how it is fed.
 *
 * The input is a trace as it is; the splits come from a hash of it, so every file of the corpus can also
 * be read by profsuite.  The limits are low, so that small inputs reach what lies beyond them.
 */
#define _GNU_SOURCE /* as Python.h does */

#define MAX_DEPTH 100
#define MAX_EVENT 3000u
#define MAX_HEADER_VALUE 200u
#define MAX_HEADER 12
#define RESYNC_BUDGET 1000u
#define KEEP_BEHIND 700u
#define SEEK_BEHIND 90
#define FIRST_ROWS 2

#include <stdio.h>

#include "../src/profsuite/trace/_scanner_lex.h"
#include "../src/profsuite/trace/_scanner_columns.h"
#include "../src/profsuite/trace/_scanner_event.h"
#include "../src/profsuite/trace/_scanner_rows.h"
#include "../src/profsuite/trace/_scanner_driver.h"
#include "../src/profsuite/trace/_scanner_setup.h"
#include "../src/profsuite/trace/_nest.h"
#include "spec.h"

#define CHECK(condition)                                                              \
    do {                                                                              \
        if (!(condition)) {                                                           \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                                  \
        }                                                                             \
    } while (0)

static uint64_t state;
static uint64_t random_below(uint64_t n) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (state >> 33) % n;
}

/* ---------------------------------------------------------------- feeding */
static Driver *new_driver(void) {
    Driver *d = calloc(1, sizeof *d);
    CHECK(d && set_up(d));
    return d;
}

static void free_driver(Driver *d) {
    driver_free(d);
    free(d);
}

/* As Scanner.read does: blocks of the file from read_at, until it stops or the file ends.  max_chunk 0: at once. */
static void read_on(Driver *d, const u8 *data, size_t size, size_t max_chunk) {
    if (d->stopped < 0 && d->len > d->pos) run(d);
    while (d->stopped < 0 && !d->eof) {
        size_t left = size - (size_t)d->read_at, n = left;
        if (max_chunk && left > 1) n = 1 + random_below(left < max_chunk ? left : max_chunk);
        if (!left) {
            driver_finish(d);
            break;
        }
        d->read_at += (int64_t)n;
        driver_feed(d, data + (size_t)d->read_at - n, n);
    }
    CHECK(!d->t.no_memory);
    CHECK(d->pos <= d->len);
    CHECK(d->stopped >= 0 || d->mode == M_DONE);
    CHECK(d->stopped < 0 || (d->limit >= 0 && d->stopped >= d->limit && d->stopped < (int64_t)size));
}

/* ---------------------------------------------------------------- comparison */
/* A result: one driver, or two that read one part each. */
typedef struct {
    const Driver *part[2];
    int parts;
} Result;

static size_t rows_of(const Result *r, int group) {
    size_t rows = 0;
    for (int i = 0; i < r->parts; i++) rows += r->part[i]->t.groups[group].rows;
    return rows;
}

static const Tables *part_of(const Result *r, int group, size_t *row, int64_t *first_slice) {
    const Tables *t = &r->part[0]->t;
    *first_slice = 0;
    if (*row < t->groups[group].rows) return t;
    *row -= t->groups[group].rows;
    *first_slice = t->slices;
    return &r->part[1]->t;
}

static void same_text(const Pool *a, int32_t x, const Pool *b, int32_t y) {
    CHECK((x < 0) == (y < 0));
    if (x < 0) return;
    CHECK((size_t)x < a->count && (size_t)y < b->count);
    size_t n = a->offsets[x + 1] - a->offsets[x];
    CHECK(n == b->offsets[y + 1] - b->offsets[y]);
    CHECK(memcmp(a->data + a->offsets[x], b->data + b->offsets[y], n) == 0);
}

static void same_value(const Result *a, const Result *b, int group, int column, size_t row) {
    size_t i = row, j = row;
    int64_t first_a, first_b;
    const Tables *s = part_of(a, group, &i, &first_a), *t = part_of(b, group, &j, &first_b);
    const Column *x = &s->groups[group].columns[column], *y = &t->groups[group].columns[column];
    int kind = s->column_kind[group][column], pool = s->column_pool[group][column];
    if (kind == K_TEXT) {
        same_text(&s->pools[pool], ((int32_t *)x->data)[i], &t->pools[pool], ((int32_t *)y->data)[j]);
    } else if (kind == K_TRACK) {
        CHECK(((int32_t *)x->data)[i] >= 0);
        same_text(&s->tracks, ((int32_t *)x->data)[i], &t->tracks, ((int32_t *)y->data)[j]);
    } else if (kind == K_ROW) {
        int64_t p = ((int32_t *)x->data)[i], q = ((int32_t *)y->data)[j];
        CHECK(p >= 0 && p < s->slices && p + first_a == q + first_b);
    } else {
        CHECK(memcmp(x->data + i * x->width, y->data + j * y->width, x->width) == 0);
    }
}

static void same(const Result *a, const Result *b) {
    int64_t events[2] = {0}, counts[2], first[2], unsupported[2][256] = {{0}};
    const Result *results[2] = {a, b};
    CHECK(a->part[0]->events_seen == b->part[0]->events_seen && a->part[0]->array_form == b->part[0]->array_form);
    CHECK(a->part[0]->error == b->part[0]->error);
    const Driver *last_a = a->part[a->parts - 1], *last_b = b->part[b->parts - 1];
    CHECK(last_a->given_up == last_b->given_up && last_a->mode == last_b->mode);
    CHECK(last_a->base + (int64_t)last_a->len == last_b->base + (int64_t)last_b->len);
    for (int g = 0; g < a->part[0]->t.num_groups; g++) {
        size_t rows = rows_of(a, g);
        CHECK(rows == rows_of(b, g));
        for (size_t i = 0; i < rows; i++)
            for (int c = 0; c < a->part[0]->t.groups[g].num_columns; c++) same_value(a, b, g, c, i);
    }
    for (int k = 0; k < NUM_REMARKS; k++) {
        for (int r = 0; r < 2; r++) {
            counts[r] = 0;
            first[r] = -1;
            for (int i = 0; i < results[r]->parts; i++) {
                const RemarkCount *m = &results[r]->part[i]->t.remarks[k];
                counts[r] += m->count;
                if (m->count && (first[r] < 0 || m->first < first[r])) first[r] = m->first;
            }
        }
        CHECK(counts[0] == counts[1]);
        CHECK(first[0] == first[1]);
    }
    size_t headers[2] = {0};
    for (int r = 0; r < 2; r++)
        for (int i = 0; i < results[r]->parts; i++) {
            events[r] += results[r]->part[i]->t.num_events;
            headers[r] += results[r]->part[i]->num_header;
            for (int k = 0; k < 256; k++) unsupported[r][k] += results[r]->part[i]->t.unsupported[k];
        }
    CHECK(events[0] == events[1]);
    CHECK(headers[0] == headers[1]);
    CHECK(memcmp(unsupported[0], unsupported[1], sizeof unsupported[0]) == 0);
    for (size_t i = 0; i < headers[0]; i++) {
        const HeaderItem *x = i < a->part[0]->num_header ? &a->part[0]->header[i]
                                                         : &a->part[1]->header[i - a->part[0]->num_header];
        const HeaderItem *y = i < b->part[0]->num_header ? &b->part[0]->header[i]
                                                         : &b->part[1]->header[i - b->part[0]->num_header];
        CHECK(x->key_len == y->key_len && memcmp(x->key, y->key, x->key_len) == 0);
        CHECK(x->value_len == y->value_len && memcmp(x->value, y->value, x->value_len) == 0);
    }
}

/* One driver that read all: also the numbering must be the same. */
static void same_codes(const Tables *a, const Tables *b) {
    for (int i = 0; i <= a->num_pools; i++) {
        const Pool *p = i < a->num_pools ? &a->pools[i] : &a->tracks, *q = i < a->num_pools ? &b->pools[i] : &b->tracks;
        CHECK(p->count == q->count && p->size == q->size);
        for (size_t k = 0; k < p->count; k++) same_text(p, (int32_t)k, q, (int32_t)k);
        for (size_t k = 0; i < a->num_pools && k < p->count; k++)
            CHECK(valid_utf8(p->data + p->offsets[k], p->offsets[k + 1] - p->offsets[k]));
    }
}

/* ---------------------------------------------------------------- nest */
static void check_nest(const Tables *t) {
    const Group *g = &t->groups[G_SLICE];
    size_t n = g->rows;
    const int32_t *track = (const int32_t *)g->columns[SLICE_TRACK].data;
    const int64_t *ts = (const int64_t *)g->columns[SLICE_TS].data;
    int64_t *dur = malloc((n + 1) * sizeof *dur), *self = malloc((n + 1) * sizeof *self);
    int32_t *parent = malloc((n + 1) * sizeof *parent), *depth = malloc((n + 1) * sizeof *depth);
    uint8_t *leaf = malloc(n + 1);
    CHECK(dur && self && parent && depth && leaf);
    int share = (int)random_below(3); /* none, some, half of them leaves */
    for (size_t i = 0; i < n; i++) {
        int64_t x = ((const int64_t *)g->columns[SLICE_DUR].data)[i];
        dur[i] = x < 0 ? 0 : x;
        leaf[i] = share && random_below(share == 1 ? 8 : 2) == 0;
    }
    CHECK(nest_all(n, track, ts, dur, leaf, parent, depth, self));
    for (size_t i = 0; i < n; i++) {
        CHECK(self[i] >= 0 && self[i] <= dur[i]);
        if (parent[i] < 0) {
            CHECK(parent[i] == -1 && depth[i] == 0);
            continue;
        }
        size_t up = (size_t)parent[i];
        CHECK(up < n && up != i && track[up] == track[i] && !leaf[up]);
        CHECK(depth[i] == depth[up] + 1);
        CHECK(ts[up] <= ts[i] && nest_end(ts[up], dur[up]) >= nest_end(ts[i], dur[i]));
    }
    free(dur);
    free(self);
    free(parent);
    free(depth);
    free(leaf);
}

/* ---------------------------------------------------------------- one input */
static int clean_stop(const Driver *d) { return d->stopped >= 0 && (d->comma || !d->after_event); }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const size_t CHUNKS[] = {1, 3, 17, 100, 1000, 0};
    state = hash_bytes(data, size);
    Driver *whole = new_driver();
    read_on(whole, data, size, 0);
    CHECK(whole->mode == M_DONE && whole->eof);
    Result all = {{whole, NULL}, 1};
    check_nest(&whole->t);

    Driver *split = new_driver();
    read_on(split, data, size, CHUNKS[random_below(5)]);
    Result other = {{split, NULL}, 1};
    same(&all, &other);
    same_codes(&whole->t, &split->t);
    free_driver(split);

    if (whole->events_seen && size) {
        int64_t limit = (int64_t)random_below(size);
        Driver *head = new_driver();
        head->limit = limit;
        read_on(head, data, size, CHUNKS[random_below(6)]);
        if (head->stopped >= 0) {
            /* A second scanner that looks for its own start, or is told it. */
            int seek = (int)random_below(2);
            Driver *tail = new_driver();
            driver_start_at(tail, seek ? limit : head->stopped, -1, head->array_form, seek);
            read_on(tail, data, size, CHUNKS[random_below(6)]);
            if (clean_stop(head) && (!seek || head->stopped == tail->started)) {
                Result both = {{head, tail}, 2};
                same(&all, &both);
            }
            free_driver(tail);
            while (head->stopped >= 0) {
                int64_t next = head->stopped + 1 + (int64_t)random_below(size);
                driver_resume(head, next < (int64_t)size ? next : -1);
                read_on(head, data, size, CHUNKS[random_below(6)]);
            }
        }
        Result resumed = {{head, NULL}, 1};
        same(&all, &resumed);
        same_codes(&whole->t, &head->t);
        free_driver(head);
    }
    free_driver(whole);
    return 0;
}
