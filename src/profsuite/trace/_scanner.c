/* The trace scanner: Chrome trace JSON -> raw columns, resumable, without the GIL.
 *
 * The grammar, the coercions and the remarks are those of docs/reader.md; readers/fallback.py is
 * the same in Python, and tests/trace/test_readers_agree.py holds the two together.
 *
 * Shape of the code: lexing (strings, numbers, nested values) -> one event -> rows in groups of
 * columns -> the driver, which owns the buffer, finds events and recovers from broken ones.
 */
#define PY_SSIZE_T_CLEAN
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030B0000
#endif
#include <Python.h>

#include <errno.h>
#include <limits.h>
#include <locale.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef __APPLE__
#include <xlocale.h>
#endif
#ifdef _WIN32
#include <io.h>
#else
#include <unistd.h>
#endif
#if defined(__SSE2__) || defined(_M_X64)
#include <emmintrin.h>
#define HAVE_SSE2 1
#endif

#define NAN_VALUE nan_value()
static inline double nan_value(void) {
    uint64_t bits = 0x7FF8000000000000ull;
    double x;
    memcpy(&x, &bits, 8);
    return x;
}

#include "_scanner_lex.h"
#include "_scanner_columns.h"
#include "_scanner_event.h"
#include "_scanner_driver.h"
#include "_nest.h"
#include "_scanner_python.h"
