/* Lexing: white space, strings, scalars, nested values, numbers.
 *
 * All functions take p <= end and rely on PADDING quote bytes after end: a search for a quote or
 * for the end of white space always stops there, so bounds are checked once, after the search.
 */
#include <limits.h>
#include <locale.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef __APPLE__
#include <xlocale.h>
#endif
#ifdef __SSE2__
#include <emmintrin.h>
#define HAVE_SSE2 1
#endif

#define PADDING 64

typedef unsigned char u8;

enum { OK = 0, NEED_MORE = 1, BROKEN = 2 };

/* A value as it lies in the buffer. */
enum { V_NONE = 0, V_STRING, V_SCALAR, V_ARRAY, V_OBJECT };
typedef struct {
    const u8 *p; /* content: of a string between its quotes, else the whole token */
    uint32_t len;
    uint8_t type;
    uint8_t escaped;  /* a backslash occurs */
    uint8_t control;  /* a raw control character occurs */
} Value;

static inline int is_space(u8 c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

static inline const u8 *skip_space(const u8 *p) {
    if (!is_space(*p)) return p;
    if (!is_space(*++p)) return p;
#ifdef HAVE_SSE2
    const __m128i sp = _mm_set1_epi8(' '), nl = _mm_set1_epi8('\n');
    const __m128i cr = _mm_set1_epi8('\r'), tab = _mm_set1_epi8('\t');
    for (;;) {
        __m128i v = _mm_loadu_si128((const __m128i *)p);
        __m128i m = _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(v, sp), _mm_cmpeq_epi8(v, nl)),
                                 _mm_or_si128(_mm_cmpeq_epi8(v, cr), _mm_cmpeq_epi8(v, tab)));
        unsigned bits = (unsigned)_mm_movemask_epi8(m) ^ 0xFFFFu;
        if (bits) return p + __builtin_ctz(bits);
        p += 16;
    }
#else
    while (is_space(*p)) p++;
    return p;
#endif
}

/* To the next quote, backslash or control character. */
static inline const u8 *string_stop(const u8 *p) {
#ifdef HAVE_SSE2
    const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\'), top = _mm_set1_epi8(0x1F);
    for (;;) {
        __m128i v = _mm_loadu_si128((const __m128i *)p);
        __m128i m = _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(v, quote), _mm_cmpeq_epi8(v, slash)),
                                 _mm_cmpeq_epi8(_mm_min_epu8(v, top), v));
        unsigned bits = (unsigned)_mm_movemask_epi8(m);
        if (bits) return p + __builtin_ctz(bits);
        p += 16;
    }
#else
    while (*p != '"' && *p != '\\' && *p >= 0x20) p++;
    return p;
#endif
}

static inline int closes_string(u8 c) { return c == ',' || c == ':' || c == '}' || c == ']'; }

/* A string; *pp is after the opening quote, then after the closing one.  With `lenient`, a quote
 * that is not followed by one of ,:}] belongs to the string, and *repaired is set. */
static int lex_string(const u8 **pp, const u8 *end, int lenient, Value *out, int *repaired) {
    const u8 *p = *pp, *start = p;
    uint8_t escaped = 0, control = 0;
    for (;;) {
        p = string_stop(p);
        if (p >= end) return NEED_MORE;
        if (*p == '"') {
            if (lenient) {
                const u8 *next = skip_space(p + 1);
                if (next >= end) return NEED_MORE;
                if (!closes_string(*next)) {
                    *repaired = 1;
                    p++;
                    continue;
                }
            }
            break;
        }
        if (*p == '\\') {
            escaped = 1;
            p += 2;
            if (p > end) return NEED_MORE;
        } else {
            control = 1;
            p++;
        }
    }
    out->p = start;
    out->len = (uint32_t)(p - start);
    out->type = V_STRING;
    out->escaped = escaped;
    out->control = control;
    *pp = p + 1;
    return OK;
}

static const u8 scalar_stop[256] = {
    [' '] = 1, ['\n'] = 1, ['\r'] = 1, ['\t'] = 1, [','] = 1, ['}'] = 1, [']'] = 1,
    ['{'] = 1, ['['] = 1, ['"'] = 1, [':'] = 1,
};

/* To the next quote or bracket. */
static inline const u8 *bracket_stop(const u8 *p) {
#ifdef HAVE_SSE2
    /* { } [ ] differ from each other only in bits 1, 2 and 5: (c | 0x20) is 0x7B or 0x7D. */
    const __m128i quote = _mm_set1_epi8('"'), low = _mm_set1_epi8(0x20);
    const __m128i open = _mm_set1_epi8('{'), close = _mm_set1_epi8('}');
    for (;;) {
        __m128i v = _mm_loadu_si128((const __m128i *)p);
        __m128i folded = _mm_or_si128(v, low);
        __m128i m = _mm_or_si128(_mm_cmpeq_epi8(v, quote),
                                 _mm_or_si128(_mm_cmpeq_epi8(folded, open), _mm_cmpeq_epi8(folded, close)));
        unsigned bits = (unsigned)_mm_movemask_epi8(m);
        if (bits) return p + __builtin_ctz(bits);
        p += 16;
    }
#else
    while (*p != '"' && (*p | 0x20) != '{' && (*p | 0x20) != '}') p++;
    return p;
#endif
}

#ifndef MAX_DEPTH /* fuzz/ sets the limits low */
#define MAX_DEPTH 1000000
#endif

/* A nested value; **pp is its opening bracket.  Only strings and brackets are looked at; one bit a
 * level says which bracket must close it, so depth costs no recursion. */
static int lex_nested(const u8 **pp, const u8 *end, int *repaired, uint64_t **bits, size_t *bits_cap) {
    const u8 *p = *pp;
    uint64_t small = 0;
    size_t depth = 0;
    for (;;) {
        p = bracket_stop(p);
        if (p >= end) return NEED_MORE;
        u8 c = *p++;
        if (c == '"') {
            Value ignored;
            int status = lex_string(&p, end, 1, &ignored, repaired);
            if (status) return status;
        } else if (c == '{' || c == '[') {
            if (depth >= MAX_DEPTH) {
                *pp = p;
                return BROKEN;
            }
            if (depth < 64) {
                small = (small & ~(1ull << depth)) | ((uint64_t)(c == '{') << depth);
            } else {
                size_t word = depth / 64 - 1;
                if (word >= *bits_cap) {
                    size_t cap = *bits_cap ? *bits_cap * 2 : 16;
                    uint64_t *grown = realloc(*bits, cap * sizeof **bits);
                    if (!grown) {
                        *pp = p;
                        return BROKEN;
                    }
                    *bits = grown;
                    *bits_cap = cap;
                }
                uint64_t bit = 1ull << (depth % 64);
                (*bits)[word] = depth % 64 == 0 ? 0 : (*bits)[word];
                (*bits)[word] = ((*bits)[word] & ~bit) | (c == '{' ? bit : 0);
            }
            depth++;
        } else {
            depth--; /* at least 1 before: the first byte opens */
            int object = depth < 64 ? (small >> depth) & 1 : ((*bits)[depth / 64 - 1] >> (depth % 64)) & 1;
            if (object != (c == '}')) {
                *pp = p;
                return BROKEN;
            }
            if (depth == 0) {
                *pp = p;
                return OK;
            }
        }
    }
}

/* Any value at **pp (white space skipped by the caller). */
static int lex_value(const u8 **pp, const u8 *end, int lenient, Value *out, int *repaired, uint64_t **bits,
                     size_t *bits_cap) {
    const u8 *p = *pp;
    if (p >= end) return NEED_MORE;
    if (*p == '"') {
        p++;
        int status = lex_string(&p, end, lenient, out, repaired);
        if (status == OK) *pp = p;
        return status;
    }
    out->escaped = out->control = 0;
    out->p = p;
    if (*p == '{' || *p == '[') {
        out->type = *p == '{' ? V_OBJECT : V_ARRAY;
        int status = lex_nested(&p, end, repaired, bits, bits_cap);
        if (status == NEED_MORE) return status;
        *pp = p;
        out->len = (uint32_t)(p - out->p);
        return status;
    }
    while (!scalar_stop[*p]) p++;
    if (p >= end) return NEED_MORE;
    *pp = p;
    if (p == out->p) return BROKEN;
    out->type = V_SCALAR;
    out->len = (uint32_t)(p - out->p);
    return OK;
}

/* ---------------------------------------------------------------- numbers */
static const uint64_t POW10[20] = {
    1ull, 10ull, 100ull, 1000ull, 10000ull, 100000ull, 1000000ull, 10000000ull, 100000000ull, 1000000000ull,
    10000000000ull, 100000000000ull, 1000000000000ull, 10000000000000ull, 100000000000000ull, 1000000000000000ull,
    10000000000000000ull, 100000000000000000ull, 1000000000000000000ull, 10000000000000000000ull,
};
static const double POW10_DOUBLE[23] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                        1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* Blanks around a number in a string are allowed. */
static inline void trim(const Value *v, const u8 **p, const u8 **end) {
    *p = v->p;
    *end = v->p + v->len;
    if (v->type == V_STRING) {
        while (*p < *end && is_space(**p)) ++*p;
        while (*p < *end && is_space((*end)[-1])) --*end;
    }
}

/* digits * 10^exponent, the first 19 significant digits; `cut` counts integer digits left out. */
typedef struct {
    uint64_t digits;
    int count, exponent, negative, cut;
} Decimal;

static int parse_decimal(const Value *v, Decimal *d) {
    const u8 *p, *end;
    if (v->type != V_STRING && v->type != V_SCALAR) return 0;
    trim(v, &p, &end);
    d->digits = 0;
    d->count = d->exponent = d->negative = d->cut = 0;
    if (p < end && *p == '-') {
        d->negative = 1;
        p++;
    }
    const u8 *first = p;
    for (; p < end && (unsigned)(*p - '0') < 10; p++) {
        if (d->count < 19) {
            d->digits = d->digits * 10 + (*p - '0');
            if (d->digits) d->count++;
        } else {
            if (d->exponent < 100000) d->exponent++;
            d->cut = 1;
        }
    }
    if (p == first) return 0;
    if (p < end && *p == '.') {
        for (p++; p < end && (unsigned)(*p - '0') < 10; p++) {
            if (d->count < 19) {
                d->digits = d->digits * 10 + (*p - '0');
                if (d->digits) d->count++;
                if (d->exponent > -100000) d->exponent--;
            } else {
                d->cut = 1;
            }
        }
    }
    if (p < end && (*p == 'e' || *p == 'E')) {
        int sign = 1, e = 0;
        p++;
        if (p < end && (*p == '+' || *p == '-')) sign = *p++ == '-' ? -1 : 1;
        first = p;
        for (; p < end && (unsigned)(*p - '0') < 10; p++)
            if (e < 100000) e = e * 10 + (*p - '0');
        if (p == first) return 0;
        d->exponent += sign * e;
    }
    return p == end;
}

/* Below this, the sum of a time and a duration fits 64 bits. */
#define TIME_LIMIT (1ull << 62)

/* Microseconds as written -> ns, rounded half away from zero. */
static int parse_time(const Value *v, int64_t *out) {
    Decimal d;
    if (!parse_decimal(v, &d)) return 0;
    int e = d.exponent + 3;
    uint64_t ns = d.digits;
    if (ns == 0) {
        *out = 0;
        return 1;
    }
    if (e > 0) {
        if (e > 19 || ns > TIME_LIMIT / POW10[e]) return 0;
        ns *= POW10[e];
    } else if (e < 0) {
        if (e < -19) {
            ns = 0;
        } else {
            uint64_t unit = POW10[-e], rest = ns % unit;
            ns /= unit;
            if (rest >= unit - rest) ns++;
        }
    }
    if (ns >= TIME_LIMIT) return 0;
    *out = d.negative ? -(int64_t)ns : (int64_t)ns;
    return 1;
}

static int parse_int(const Value *v, int64_t *out) {
    const u8 *p, *end;
    if (v->type != V_STRING && v->type != V_SCALAR) return 0;
    trim(v, &p, &end);
    int negative = 0;
    if (p < end && *p == '-') {
        negative = 1;
        p++;
    }
    const u8 *first = p;
    uint64_t n = 0;
    for (; p < end && (unsigned)(*p - '0') < 10; p++) {
        unsigned digit = *p - '0';
        if (n > (UINT64_MAX - digit) / 10) return 0;
        n = n * 10 + digit;
    }
    if (p == first) return 0;
    if (p < end) {
        if (*p++ != '.') return 0;
        while (p < end && *p == '0') p++;
        if (p != end) return 0;
    }
    if (n > (uint64_t)INT64_MAX + (negative && n == (1ull << 63))) return 0;
    *out = negative ? (int64_t)(0 - n) : (int64_t)n;
    return *out != INT64_MIN; /* that one stands for null */
}

static int parse_double(const Value *v, double *out) {
    Decimal d;
    if (!parse_decimal(v, &d)) return 0;
    if (d.digits == 0) {
        *out = d.negative ? -0.0 : 0.0;
        return 1;
    }
    if (!d.cut && d.digits < (1ull << 53) && d.exponent >= -22 && d.exponent <= 22) {
        /* both exactly representable: one rounding, hence correctly rounded */
        double x = (double)d.digits;
        x = d.exponent < 0 ? x / POW10_DOUBLE[-d.exponent] : x * POW10_DOUBLE[d.exponent];
        *out = d.negative ? -x : x;
        return 1;
    }
    const u8 *p, *end;
    trim(v, &p, &end);
    char small[64], *text = small;
    size_t len = (size_t)(end - p);
    if (len >= sizeof small && !(text = malloc(len + 1))) return 0;
    memcpy(text, p, len);
    text[len] = 0;
#ifdef _WIN32
    static _locale_t c_locale;
    if (!c_locale) c_locale = _create_locale(LC_NUMERIC, "C");
    double x = _strtod_l(text, NULL, c_locale);
#else
    static locale_t c_locale; /* a race only creates it twice */
    if (!c_locale) c_locale = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    double x = strtod_l(text, NULL, c_locale);
#endif
    if (text != small) free(text);
    *out = x;
    return x - x == 0; /* not infinite */
}
