/* Nesting of slices: trace/nesting.py says what is computed, and is the same in numpy. */

typedef struct {
    uint64_t key; /* ts less the track's first ts */
    uint32_t row;
} NestItem;

static inline int64_t nest_end(int64_t ts, int64_t dur) { return ts + (dur > 0 ? dur : 1); }

/* LSD radix sort by key, stable; `items` and `spare` hold n; returns the sorted one. */
static NestItem *radix_sort(NestItem *items, NestItem *spare, size_t n, uint64_t max_key) {
    for (int shift = 0; shift < 64 && (shift == 0 || max_key >> shift); shift += 11) {
        size_t counts[2048] = {0}, sum = 0;
        for (size_t i = 0; i < n; i++) counts[items[i].key >> shift & 2047]++;
        for (int b = 0; b < 2048; b++) {
            size_t c = counts[b];
            counts[b] = sum;
            sum += c;
        }
        for (size_t i = 0; i < n; i++) spare[counts[items[i].key >> shift & 2047]++] = items[i];
        NestItem *swap = items;
        items = spare;
        spare = swap;
    }
    return items;
}

/* Among equal keys the longer first, then file order: a stable merge sort of the run. */
static void sort_run(NestItem *a, NestItem *spare, size_t n, const int64_t *dur) {
    if (n <= 16) {
        for (size_t i = 1; i < n; i++) {
            NestItem x = a[i];
            size_t j = i;
            for (; j > 0 && dur[a[j - 1].row] < dur[x.row]; j--) a[j] = a[j - 1];
            a[j] = x;
        }
        return;
    }
    size_t half = n / 2, i = 0, j = half, k = 0;
    sort_run(a, spare, half, dur);
    sort_run(a + half, spare, n - half, dur);
    while (i < half && j < n) spare[k++] = dur[a[j].row] > dur[a[i].row] ? a[j++] : a[i++];
    while (i < half) spare[k++] = a[i++];
    while (j < n) spare[k++] = a[j++];
    memcpy(a, spare, n * sizeof *a);
}

/* One track, in order.  `stack` and `covered` hold n; covered_until[row] is kept in `until`. */
static void nest_track(const NestItem *items, size_t n, const int64_t *ts, const int64_t *dur, const uint8_t *leaf,
                       uint32_t *stack, int64_t *until, int32_t *parent, int32_t *depth, int64_t *self) {
    size_t top = 0; /* ends on the stack never rise from bottom to top */
    for (size_t i = 0; i < n; i++) {
        uint32_t row = items[i].row;
        int64_t start = ts[row], end = nest_end(start, dur[row]);
        if (leaf[row]) {
            while (top && nest_end(ts[stack[top - 1]], dur[stack[top - 1]]) <= start) top--;
        } else {
            while (top && nest_end(ts[stack[top - 1]], dur[stack[top - 1]]) < end) top--;
        }
        size_t lo = top;
        if (leaf[row] && top && nest_end(ts[stack[top - 1]], dur[stack[top - 1]]) < end) {
            size_t low = 0, high = top; /* how many from the bottom end late enough */
            while (low < high) {
                size_t mid = (low + high) / 2;
                if (nest_end(ts[stack[mid]], dur[stack[mid]]) >= end) low = mid + 1;
                else high = mid;
            }
            lo = low;
        }
        self[row] = dur[row];
        until[row] = start;
        if (lo) {
            uint32_t up = stack[lo - 1];
            parent[row] = (int32_t)up;
            depth[row] = depth[up] + 1;
            int64_t from = start > until[up] ? start : until[up];
            int64_t to = start + dur[row], up_end = ts[up] + dur[up];
            if (to > up_end) to = up_end;
            if (to > from) {
                self[up] -= to - from;
                until[up] = to;
            }
        } else {
            parent[row] = -1;
            depth[row] = 0;
        }
        if (!leaf[row]) stack[top++] = row;
    }
}

/* All tracks; 0 without memory. */
static int nest_all(size_t n, const int32_t *track, const int64_t *ts, const int64_t *dur, const uint8_t *leaf,
                    int32_t *parent, int32_t *depth, int64_t *self) {
    int32_t tracks = 0;
    for (size_t i = 0; i < n; i++)
        if (track[i] >= tracks) tracks = track[i] + 1;
    size_t *start = calloc((size_t)tracks + 2, sizeof *start);
    uint32_t *rows = malloc((n + 1) * sizeof *rows);
    int64_t *until = malloc((n + 1) * sizeof *until);
    int good = start && rows && until;
    size_t longest = 0;
    if (good) {
        for (size_t i = 0; i < n; i++) start[track[i] + 2]++;
        for (int32_t k = 0; k < tracks; k++) {
            if (start[k + 2] > longest) longest = start[k + 2];
            start[k + 2] += start[k + 1];
        }
        for (size_t i = 0; i < n; i++) rows[start[track[i] + 1]++] = (uint32_t)i;
    }
    NestItem *items = malloc((longest + 1) * sizeof *items), *spare = malloc((longest + 1) * sizeof *spare);
    uint32_t *stack = malloc((longest + 1) * sizeof *stack);
    good = good && items && spare && stack;
    for (int32_t k = 0; good && k < tracks; k++) {
        size_t first = start[k], count = start[k + 1] - first;
        if (!count) continue;
        int64_t low = INT64_MAX, high = INT64_MIN;
        int sorted = 1;
        for (size_t i = 0; i < count; i++) {
            int64_t x = ts[rows[first + i]];
            if (x < high) sorted = 0;
            if (x < low) low = x;
            if (x > high) high = x;
        }
        for (size_t i = 0; i < count; i++) {
            items[i].row = rows[first + i];
            items[i].key = (uint64_t)ts[items[i].row] - (uint64_t)low;
        }
        NestItem *order = sorted ? items : radix_sort(items, spare, count, (uint64_t)high - (uint64_t)low);
        NestItem *other = order == items ? spare : items;
        for (size_t i = 0; i < count;) {
            size_t j = i + 1;
            while (j < count && order[j].key == order[i].key) j++;
            if (j - i > 1) sort_run(order + i, other, j - i, dur);
            i = j;
        }
        nest_track(order, count, ts, dur, leaf, stack, until, parent, depth, self);
    }
    free(start);
    free(rows);
    free(until);
    free(items);
    free(spare);
    free(stack);
    return good;
}
