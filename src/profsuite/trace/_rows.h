/* Columns to text or protobuf: what exporters/rows.py says, row by row; rows.py is the same without C. */

enum { ROW_LITERAL, ROW_INT, ROW_TIME, ROW_WORD, ROW_WHEN, ROW_VARINT, ROW_FIXED, ROW_SIZED, ROW_OPEN, ROW_CLOSE, ROW_OPS };
enum { SEP_NONE, SEP_MEMBER, SEP_OPENS };
#define ROW_MAX_DEPTH 8
#define ROW_NULL INT64_MIN

typedef struct {
    int op, separator, skip; /* skip: parts left out by a ROW_WHEN that is false */
    const char *prefix;
    size_t prefix_size;
    const void *data;
    size_t size; /* elements of data */
    const int32_t *index; /* row -> element, negative: null; NULL: the row itself */
    const int64_t *bounds; /* of the words in text */
    size_t num_words, text_size;
    const char *text;
    size_t alike; /* parts from here on that have this index, and are absent where it is */
} RowPart;

typedef struct {
    char *data;
    size_t size, room;
} RowText;

static int row_room(RowText *t, size_t more) {
    if (t->room - t->size >= more) return 1;
    size_t room = t->room + t->room / 2 + more;
    char *data = realloc(t->data, room);
    if (!data) return 0;
    t->data = data;
    t->room = room;
    return 1;
}

/* memcpy of few bytes without a call: two moves that overlap. */
static inline char *row_copy(char *out, const char *from, size_t size) {
    if (size > 32) {
        memcpy(out, from, size);
    } else if (size >= 16) {
        memcpy(out, from, 16);
        memcpy(out + size - 16, from + size - 16, 16);
    } else if (size >= 8) {
        memcpy(out, from, 8);
        memcpy(out + size - 8, from + size - 8, 8);
    } else if (size >= 4) {
        memcpy(out, from, 4);
        memcpy(out + size - 4, from + size - 4, 4);
    } else {
        for (size_t i = 0; i < size; i++) out[i] = from[i];
    }
    return out + size;
}

static const char row_pairs[] = "00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445464748"
                                "49505152535455565758596061626364656667686970717273747576777879808182838485868788899091929394959697"
                                "9899";

static char *row_decimal(char *out, uint64_t value) {
    char digits[20], *at = digits + 20;
    while (value >= 100) {
        at -= 2;
        memcpy(at, row_pairs + value % 100 * 2, 2);
        value /= 100;
    }
    if (value >= 10) {
        at -= 2;
        memcpy(at, row_pairs + value * 2, 2);
    } else {
        *--at = (char)('0' + value);
    }
    return row_copy(out, at, (size_t)(digits + 20 - at));
}

static char *row_varint(char *out, uint64_t value) {
    while (value >= 128) {
        *out++ = (char)(value | 128);
        value >>= 7;
    }
    *out++ = (char)value;
    return out;
}

static void rows_alike(RowPart *parts, size_t num_parts) {
    for (size_t p = num_parts; p-- > 0;) {
        const RowPart *next = parts + p + 1;
        int joined = p + 1 < num_parts && next->index && next->index == parts[p].index && next->op != ROW_WHEN;
        parts[p].alike = joined ? next->alike + 1 : 1;
    }
}

/* 1: done; 0: no memory; -1: an index, a code, a word's bounds or the nesting is wrong. */
static int rows_write(size_t first, size_t stop, const RowPart *parts, size_t num_parts, RowText *out) {
    for (size_t row = first; row < stop; row++) {
        size_t open[ROW_MAX_DEPTH];
        int depth = 0, fresh = 1;
        for (size_t p = 0; p < num_parts; p++) {
            const RowPart *part = parts + p;
            const char *word = NULL;
            size_t word_size = 0;
            int64_t value = 0;
            if (part->data) {
                size_t at = row;
                int absent = 0;
                if (part->index) {
                    absent = part->index[row] < 0;
                    at = absent ? 0 : (size_t)part->index[row];
                }
                if (!absent && at >= part->size) return -1;
                if (part->op == ROW_WHEN) {
                    if (absent || !((const int8_t *)part->data)[at]) p += (size_t)part->skip;
                    continue;
                }
                if (absent) {
                    p += part->alike - 1;
                    continue;
                }
                if (part->op == ROW_WORD) {
                    int32_t code = ((const int32_t *)part->data)[at];
                    if (code < 0) continue;
                    if ((size_t)code >= part->num_words) return -1;
                    int64_t start = part->bounds[code], end = part->bounds[code + 1];
                    if (start < 0 || start > end || (size_t)end > part->text_size) return -1;
                    word = part->text + start;
                    word_size = (size_t)(end - start);
                } else {
                    value = ((const int64_t *)part->data)[at];
                    if (value == ROW_NULL && part->op != ROW_FIXED) continue;
                }
            }
            if (!row_room(out, part->prefix_size + word_size + 32)) return 0;
            char *o = out->data + out->size;
            if (part->separator == SEP_MEMBER) {
                if (!fresh) {
                    *o++ = ',';
                    *o++ = ' ';
                }
                fresh = 0;
            }
            if (part->op == ROW_SIZED) { /* tag, length, the rest of the prefix and a varint */
                if (!part->prefix_size || part->prefix_size > 100) return -1;
                char digits[10];
                size_t size = (size_t)(row_varint(digits, (uint64_t)value) - digits);
                *o++ = part->prefix[0];
                *o++ = (char)(part->prefix_size - 1 + size);
                memcpy(o, part->prefix + 1, part->prefix_size - 1);
                o += part->prefix_size - 1;
                memcpy(o, digits, size);
                out->size = (size_t)(o + size - out->data);
                continue;
            }
            o = row_copy(o, part->prefix, part->prefix_size);
            if (part->separator == SEP_OPENS) fresh = 1;
            switch (part->op) {
            case ROW_INT:
                if (value < 0) *o++ = '-';
                o = row_decimal(o, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
                break;
            case ROW_TIME: {
                uint64_t ns = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
                if (value < 0) *o++ = '-';
                o = row_decimal(o, ns / 1000);
                ns %= 1000;
                *o++ = '.';
                *o++ = (char)('0' + ns / 100);
                memcpy(o, row_pairs + ns % 100 * 2, 2);
                o += 2;
                break;
            }
            case ROW_WORD:
                o = row_copy(o, word, word_size);
                break;
            case ROW_VARINT: o = row_varint(o, (uint64_t)value); break;
            case ROW_FIXED:
                for (int i = 0; i < 8; i++) *o++ = (char)((uint64_t)value >> (8 * i));
                break;
            case ROW_OPEN:
                if (depth == ROW_MAX_DEPTH) return -1;
                o += 4;
                open[depth++] = (size_t)(o - out->data);
                break;
            case ROW_CLOSE: {
                if (!depth) return -1;
                size_t start = open[--depth], length = (size_t)(o - out->data) - start;
                if (length >> 28) return -1;
                char *at = out->data + start - 4; /* a varint of four bytes, however small */
                for (int i = 0; i < 4; i++) at[i] = (char)((length >> (7 * i) & 127) | (i < 3 ? 128 : 0));
                break;
            }
            default: break;
            }
            out->size = (size_t)(o - out->data);
        }
        if (depth) return -1;
    }
    return 1;
}

/* ---------------------------------------------------------------- lanes */
/* Which slices overlap an earlier one of their track without lying in it, and the first lane where they do not.
 * `order`: the rows by (track, ts, longer first, row).  The same as lanes.py in Python. */
#define MAX_LANES 256 /* beyond it the last takes all, so that no input makes this quadratic */

typedef struct {
    int64_t *ends; /* a stack: never rises from bottom to top */
    size_t top, room;
} Lane;

static int lanes_find(size_t n, const int64_t *order, const int32_t *track, const int64_t *ts, const int64_t *dur,
                      int32_t *lane) {
    Lane *lanes = NULL;
    size_t used = 0, room = 0;
    int good = 1;
    for (size_t i = 0; good && i < n; i++) {
        size_t row = (size_t)order[i];
        if (i && track[row] != track[(size_t)order[i - 1]])
            for (size_t k = 0; k < used; k++) lanes[k].top = 0;
        int64_t start = ts[row], end = start + dur[row];
        for (size_t k = 0;; k++) {
            if (k == room) {
                size_t more = room ? room * 2 : 4;
                Lane *grown = realloc(lanes, more * sizeof *lanes);
                if (!grown) {
                    good = 0;
                    break;
                }
                lanes = grown;
                memset(lanes + room, 0, (more - room) * sizeof *lanes);
                room = more;
            }
            if (k == used) used++;
            Lane *l = lanes + k;
            while (l->top && l->ends[l->top - 1] <= start) l->top--;
            if (l->top && l->ends[l->top - 1] < end && k + 1 < MAX_LANES) continue;
            if (l->top == l->room) {
                size_t more = l->room ? l->room * 2 : 16;
                int64_t *grown = realloc(l->ends, more * sizeof *grown);
                if (!grown) {
                    good = 0;
                    break;
                }
                l->ends = grown;
                l->room = more;
            }
            l->ends[l->top++] = end;
            lane[row] = (int32_t)k;
            break;
        }
    }
    for (size_t k = 0; k < room; k++) free(lanes[k].ends);
    free(lanes);
    return good;
}
