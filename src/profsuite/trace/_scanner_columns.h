/* Columns that grow, and string pools that number strings by first appearance. */

typedef struct {
    char *data;
    size_t width; /* bytes an element */
} Column;

typedef struct {
    Column *columns;
    int num_columns;
    size_t rows, cap;
} Group;

#ifndef FIRST_ROWS
#define FIRST_ROWS 1024
#endif

/* Room for one more row in every column of the group. */
static int group_grow(Group *g) {
    size_t cap = g->cap ? g->cap + g->cap / 2 : FIRST_ROWS;
    for (int i = 0; i < g->num_columns; i++) {
        char *data = realloc(g->columns[i].data, cap * g->columns[i].width);
        if (!data) return 0;
        g->columns[i].data = data;
    }
    g->cap = cap;
    return 1;
}

static inline int group_reserve(Group *g) { return g->rows < g->cap || group_grow(g); }

#define PUT(g, column, type, value) (((type *)(g)->columns[column].data)[(g)->rows] = (type)(value))

typedef struct {
    uint32_t hash, code_plus_one;
} Slot;

typedef struct {
    u8 *data;          /* all strings, one after another */
    size_t size, cap;  /* of data */
    size_t *offsets;   /* count + 1 */
    size_t count, count_cap;
    Slot *slots;
    size_t mask; /* slots - 1 */
} Pool;

#define HASH_MULTIPLIER 0xD6E8FEB86659FD93ull

static inline uint64_t load64(const u8 *p) {
    uint64_t w;
    memcpy(&w, p, 8);
    return w;
}

/* Four lanes, so that long names do not wait for one multiplication after another. */
static inline uint64_t hash_bytes(const u8 *p, size_t n) {
    uint64_t h = 0x9E3779B97F4A7C15ull ^ n, w;
    if (n >= 32) {
        uint64_t a = h, b = h + 1, c = h + 2, d = h + 3;
        do {
            a = (a ^ load64(p)) * HASH_MULTIPLIER;
            b = (b ^ load64(p + 8)) * HASH_MULTIPLIER;
            c = (c ^ load64(p + 16)) * HASH_MULTIPLIER;
            d = (d ^ load64(p + 24)) * HASH_MULTIPLIER;
            a ^= a >> 32;
            b ^= b >> 32;
            c ^= c >> 32;
            d ^= d >> 32;
            p += 32;
            n -= 32;
        } while (n >= 32);
        h = ((a * 3 + b) * 3 + c) * 3 + d;
    }
    while (n >= 8) {
        h = (h ^ load64(p)) * HASH_MULTIPLIER;
        h ^= h >> 32;
        p += 8;
        n -= 8;
    }
    if (n) {
        w = 0;
        memcpy(&w, p, n);
        h = (h ^ w) * HASH_MULTIPLIER;
        h ^= h >> 32;
    }
    h *= HASH_MULTIPLIER;
    return h ^ (h >> 29);
}

/* How many bytes at p are one character in UTF-8; 0 if none, *bad is then how many U+FFFD stands for
 * (as Python's errors="replace": the longest start of a character, else one byte). */
static int utf8_length(const u8 *p, const u8 *end, int *bad) {
    u8 c = *p, low = 0x80, high = 0xBF;
    int n;
    *bad = 1;
    if (c < 0x80) return 1;
    if (c >= 0xC2 && c <= 0xDF) n = 2;
    else if ((c & 0xF0) == 0xE0) n = 3;
    else if (c >= 0xF0 && c <= 0xF4) n = 4;
    else return 0;
    if (c == 0xE0) low = 0xA0;
    if (c == 0xED) high = 0x9F;
    if (c == 0xF0) low = 0x90;
    if (c == 0xF4) high = 0x8F;
    for (; *bad < n; ++*bad, low = 0x80, high = 0xBF)
        if (p + *bad >= end || p[*bad] < low || p[*bad] > high) return 0;
    return n;
}

static int valid_utf8(const u8 *p, size_t n) {
    const u8 *end = p + n;
    int length, bad;
    for (; p < end; p += length)
        if (!(length = utf8_length(p, end, &bad))) return 0;
    return 1;
}

/* With U+FFFD for what is no UTF-8; `out` holds 3 * n.  Returns the length. */
static size_t clean_utf8(const u8 *p, size_t n, u8 *out) {
    const u8 *end = p + n;
    u8 *o = out;
    int bad;
    while (p < end) {
        int length = utf8_length(p, end, &bad);
        memcpy(o, length ? p : (const u8 *)"\xEF\xBF\xBD", (size_t)(length ? length : 3));
        o += length ? length : 3;
        p += length ? length : bad;
    }
    return (size_t)(o - out);
}

static int pool_rehash(Pool *pool, size_t slots) {
    Slot *fresh = calloc(slots, sizeof *fresh);
    if (!fresh) return 0;
    for (size_t i = 0; pool->slots && i <= pool->mask; i++) {
        Slot s = pool->slots[i];
        if (!s.code_plus_one) continue;
        size_t at = s.hash & (slots - 1);
        while (fresh[at].code_plus_one) at = (at + 1) & (slots - 1);
        fresh[at] = s;
    }
    free(pool->slots);
    pool->slots = fresh;
    pool->mask = slots - 1;
    return 1;
}

/* The code of a string, -1 if it is new; *slot is where it is or belongs. */
static int32_t pool_find(const Pool *pool, const u8 *p, size_t n, uint32_t hash, size_t *slot) {
    size_t at = hash & pool->mask;
    for (; pool->slots[at].code_plus_one; at = (at + 1) & pool->mask) {
        if (pool->slots[at].hash != hash) continue;
        size_t code = pool->slots[at].code_plus_one - 1;
        size_t start = pool->offsets[code];
        if (pool->offsets[code + 1] - start == n && memcmp(pool->data + start, p, n) == 0) {
            *slot = at;
            return (int32_t)code;
        }
    }
    *slot = at;
    return -1;
}

/* A new string's code; -2 without memory. */
static int32_t pool_add(Pool *pool, const u8 *p, size_t n, uint32_t hash, size_t slot) {
    if (pool->count >= INT32_MAX - 1) return -2;
    if (pool->count + 2 > pool->count_cap) {
        size_t cap = pool->count_cap ? pool->count_cap * 2 : 256;
        size_t *offsets = realloc(pool->offsets, cap * sizeof *offsets);
        if (!offsets) return -2;
        pool->offsets = offsets;
        pool->count_cap = cap;
        if (pool->count == 0) pool->offsets[0] = 0;
    }
    if (pool->size + n >= pool->cap) { /* also for the first, empty string */
        size_t cap = (pool->size + n) * 2 + 4096;
        u8 *data = realloc(pool->data, cap);
        if (!data) return -2;
        pool->data = data;
        pool->cap = cap;
    }
    if (n) memcpy(pool->data + pool->size, p, n);
    pool->size += n;
    size_t code = pool->count++;
    pool->offsets[code + 1] = pool->size;
    pool->slots[slot].hash = hash;
    pool->slots[slot].code_plus_one = (uint32_t)code + 1;
    if (pool->count * 2 > pool->mask && !pool_rehash(pool, (pool->mask + 1) * 4)) return -2;
    return (int32_t)code;
}

/* The code of a string, a new one if need be; -2 without memory.  Bytes that are no UTF-8 become U+FFFD. */
static int32_t pool_code(Pool *pool, const u8 *p, size_t n, int *repaired) {
    uint32_t hash = (uint32_t)hash_bytes(p, n);
    size_t slot;
    if (!pool->slots && !pool_rehash(pool, 256)) return -2;
    int32_t code = pool_find(pool, p, n, hash, &slot);
    if (code >= 0) return code;
    if (valid_utf8(p, n)) return pool_add(pool, p, n, hash, slot);
    u8 *clean = malloc(3 * n);
    if (!clean) return -2;
    *repaired = 1;
    code = pool_code(pool, clean, clean_utf8(p, n, clean), repaired);
    free(clean);
    return code;
}

/* Forget all strings. */
static void pool_clear(Pool *pool) {
    pool->count = pool->size = 0;
    if (pool->mask < 1024) {
        if (pool->slots) memset(pool->slots, 0, (pool->mask + 1) * sizeof *pool->slots);
    } else {
        free(pool->slots);
        pool->slots = NULL;
        pool->mask = 0;
    }
}

static void pool_free(Pool *pool) {
    free(pool->data);
    free(pool->offsets);
    free(pool->slots);
}
