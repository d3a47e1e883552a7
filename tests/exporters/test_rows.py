"""Columns to bytes: the C writer and the one in numpy write the same, and what they should."""

from __future__ import annotations

import numpy as np
import pytest

from profsuite.exporters.rows import (
    Op,
    Part,
    Separator,
    literal,
    message,
    native_rows,
    render,
    render_arrow,
    when,
    words,
)
from profsuite.trace.readers.fields import NULL_INT64

RENDERERS = [
    pytest.param(render, marks=pytest.mark.skipif(native_rows() is None, reason="no C extension"), id="c"),
    pytest.param(render_arrow, id="numpy"),
]


@pytest.mark.parametrize("write", RENDERERS)
def test_json_members(write):
    value = np.array([1, NULL_INT64, -(2**63) + 1], np.int64)
    time = np.array([-1, 1_234_567, NULL_INT64], np.int64)
    parts = [
        literal(b"{", Separator.OPENS),
        Part(Op.INT, b'"a":', value).member(),
        Part(Op.TIME, b'"t":', time).member(),
        Part(Op.WORD, b'"w":', np.array([1, -1, 0], np.int32), words=words([b"x", b""])).member(),
        literal(b"}\n"),
    ]
    assert bytes(write(3, parts)) == b'{"a":1, "t":-0.001, "w":}\n{"t":1234.567}\n{"a":-9223372036854775807, "w":x}\n'


@pytest.mark.parametrize("write", RENDERERS)
def test_conditions_and_indices(write):
    value = np.array([10, 20], np.int64)
    index = np.array([1, -1, 0], np.int32)
    inner = when(np.array([1, 0, 0]), [literal(b"!")])
    parts = [*when(np.array([1, 1, 0]), [Part(Op.INT, b"v", value, index), *inner]), literal(b";")]
    assert bytes(write(3, parts)) == b"v20!;;;"


@pytest.mark.parametrize("write", RENDERERS)
def test_protobuf(write):
    number = np.array([300, NULL_INT64, -1], np.int64)
    parts = message(b"\x0a", [Part(Op.SIZED, b"\x22\x08\x05", number), Part(Op.FIXED, b"\x09", number)])
    low = bytes.fromhex("0000000000000080")
    assert bytes(write(3, parts)) == (
        b"\x0a\x8f\x80\x80\x00" + b"\x22\x04\x08\x05\xac\x02" + b"\x09\x2c\x01" + bytes(6)
        + b"\x0a\x89\x80\x80\x00" + b"\x09" + low
        + b"\x0a\x97\x80\x80\x00" + b"\x22\x0c\x08\x05" + b"\xff" * 9 + b"\x01" + b"\x09" + b"\xff" * 8
    )  # fmt: skip


@pytest.mark.skipif(native_rows() is None, reason="no C extension")
def test_both_write_the_same_bytes():
    rng = np.random.default_rng(7)
    n = 400
    number = rng.integers(-(2**62), 2**62, n)
    number[::7] = NULL_INT64
    index = rng.integers(-1, n, n).astype(np.int32)
    code = rng.integers(-1, 3, n).astype(np.int32)
    text = words([b"abc", b"", b"\xff" * 300])
    parts = [
        literal(b"{", Separator.OPENS),
        Part(Op.INT, b"a", number).member(),
        Part(Op.TIME, b"t", number, index).member(),
        *when(
            rng.integers(0, 2, n),
            [
                Part(Op.WORD, b"w", code, index, text).member(),
                *when(rng.integers(0, 2, n), [literal(b"x")], index),
            ],
        ),
        *message(
            b"\x0a",
            [
                Part(Op.VARINT, b"\x08", number, index),
                *message(b"\x12", [Part(Op.SIZED, b"\x22\x08", number)]),
                Part(Op.WORD, b"", code, words=text),
            ],
        ),
    ]
    assert bytes(render(n, parts)) == bytes(render_arrow(n, parts))


@pytest.mark.parametrize("write", RENDERERS)
def test_what_points_outside_is_refused(write):
    outside = np.array([2], np.int32)
    with pytest.raises((ValueError, IndexError)):
        write(1, [Part(Op.INT, b"", np.array([1], np.int64), outside)])
    with pytest.raises((ValueError, IndexError)):
        write(1, [Part(Op.WORD, b"", outside, words=words([b"a"]))])
    with pytest.raises((ValueError, IndexError)):
        write(2, [Part(Op.INT, b"", np.array([1], np.int64))])
