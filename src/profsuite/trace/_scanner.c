/* The trace scanner: Chrome trace JSON -> raw columns, resumable, without the GIL.
 *
 * The grammar, the coercions and the remarks are those of docs/reader.md; readers/fallback.py is
 * the same in Python, and tests/trace/test_readers_agree.py holds the two together.
 *
 * Shape of the code: lexing (strings, numbers, nested values) -> one event -> rows in groups of
 * columns -> the driver, which owns the buffer, finds events and recovers from broken ones.  All
 * but _scanner_python.h is plain C, which fuzz/ builds without Python.
 */
#define PY_SSIZE_T_CLEAN
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030B0000
#endif
#include <Python.h>
#include <stdarg.h>
#include <stdio.h>

#include "_scanner_lex.h"
#include "_scanner_columns.h"
#include "_scanner_event.h"
#include "_scanner_rows.h"
#include "_scanner_driver.h"
#include "_scanner_setup.h"
#include "_nest.h"
#include "_dag.h"
#include "_rows.h"
#include "_snapshot.h"
#include "_scanner_python.h"
