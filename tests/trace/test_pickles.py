"""Pickles are read as data: what is not plain is refused in one line, and nothing is ever run."""

from __future__ import annotations

import collections
import datetime
import os
import pickle
import pickletools
import struct
from decimal import Decimal

import pytest

from profsuite.errors import TraceError
from profsuite.trace.readers import pickles
from profsuite.trace.readers.pickles import Listing, Mapping, read_pickle


class Plain:
    """A builder that takes nothing: the pickle's own value comes out."""

    def record(self, items):
        return None

    def settled(self, value):
        return value

    def claim(self, row, number, listing):
        raise AssertionError("nobody made a row")

    def rest(self, stack):
        return None


def value_of(made):
    if isinstance(made, Listing):
        return [value_of(item) for item in made.items]
    if isinstance(made, Mapping):
        return {key: value_of(item) for key, item in made.items.items()}
    return made


def read(data, size=1 << 20):
    chunks = (data[i : i + size] for i in range(0, len(data), size))
    made, num_bytes, _ = read_pickle("x.pickle", chunks, Plain())
    assert num_bytes == len(data)
    return value_of(made)


PLAIN = {
    "numbers": [0, 1, 255, 256, 65535, 65536, -1, -(2**31), 2**31, 2**62, -(2**63), 2**63 - 1, 1.5, -0.0],
    "text": ["", "a", "ü" * 300, "x" * 70_000, "\U0001f600"],
    "flags": [True, False, None],
    "tuples": [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, "four")],
    "many": list(range(3000)),
    "wide": {f"k{i}": i for i in range(2500)},
    "shared": [["s"]] * 3,
    "empty": [{}, []],
}


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("size", [1 << 20, 1021, 70])
def test_plain_data_comes_out_as_python_reads_it(protocol, size):
    assert read(pickle.dumps(PLAIN, protocol), size) == PLAIN


def test_what_pickletools_has_optimized_too():
    assert read(pickletools.optimize(pickle.dumps(PLAIN, 4))) == PLAIN


class Evil:
    def __reduce__(self):
        return os.system, ("touch pwned",)


@pytest.mark.parametrize(
    "value",
    [Evil(), [Evil()], {"segments": Evil()}, datetime.datetime(2020, 1, 1), Decimal(1), {1, 2}, b"bytes",
     frozenset((1,)), collections.OrderedDict(a=1), 2**80, complex(1, 2), bytearray(b"x"), print],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_anything_else_is_refused_in_one_line(value, protocol, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TraceError) as error:
        read(pickle.dumps(value, protocol))
    assert str(error.value).startswith("x.pickle: at byte ")
    assert "\n" not in str(error.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"\x80\x04cos\nsystem\n", "GLOBAL"),
        (b"\x80\x04\x8c\x02os\x8c\x06system\x93", "STACK_GLOBAL"),
        (b"\x80\x02" + b"(" * 1000, "inside one another"),
        (b"\x80\x02" + b"]" * 40 + b"a" * 39, "ends early"),
        (b"\x80\x04\x8d" + struct.pack("<Q", 2**60), "a text of"),
        (b"\x80\x04X" + struct.pack("<I", 2**32 - 1), "a text of"),
        (b"\x80\x02]r" + struct.pack("<I", 2**32 - 1) + b".", "hole"),
        (b"\x80\x02]q\x05.", "hole"),
        (b"\x80\x02\x8a\xff" + b"\xff" * 255 + b".", "an integer of 255 bytes"),
        (b"\x80\x01N.", "protocol 1"),
        (b"\x80\x09N.", "protocol 9"),
        (b"\x80\x02j" + struct.pack("<I", 7) + b".", "ends early"),
        (b"\x80\x02NN.", "stops in the middle"),
        (b"\x80\x02N" + b"2" * 10 + b".", "DUP"),
        (b"\x80\x02Na.", "ends early"),
        (b"\x80\x02NNa.", "no list"),
        (b"\x80\x02NNNs.", "no dict"),
        (b"\x80\x02}(NNNu.", "does not fit"),
        (b"\x80\x02\xff.", "no pickle opcode"),
        (b"\x80\x04\x95" + b"\xff" * 8, "ends early"),
    ],
)  # fmt: skip
def test_damage_and_malice(data, says):
    if not (data.endswith(b".") or "early" in says):
        data += b" " * 64
    with pytest.raises(TraceError, match=says):
        read_pickle("x", iter([data]), Plain())


def test_cut_anywhere_it_is_an_error():
    data = pickle.dumps({"a": [1, 2, 3], "b": ("x", 2.5), "c": "text"}, 4)
    for end in range(1, len(data)):
        with pytest.raises(TraceError):
            read(data[:end])


def test_a_list_in_itself_is_no_loop():
    loop: list[object] = []
    loop.append(loop)
    made, *_ = read_pickle("x", iter([pickle.dumps(loop, 4)]), Plain())
    assert made.items == [pickles.EMPTY]


def test_shared_lists_do_not_multiply():
    """Each list holds the one before ten times: a walk would meet 10**60 of them."""
    nest: list[object] = []
    for _ in range(60):
        nest = [nest] * 10
    with pytest.raises(TraceError, match="inside one another"):
        read_pickle("x", iter([pickle.dumps(nest, 2)]), Plain())


@pytest.mark.parametrize("opcode", [b"N", b"]", b"}", b"N\x94", b"K\x01"])
def test_more_values_than_any_snapshot_has(opcode, monkeypatch):
    monkeypatch.setattr(pickles, "ALLOWANCE", 10_000)
    data = b"\x80\x04" + opcode * 300_000
    chunks = (data[i : i + 4096] for i in range(0, len(data), 4096))
    with pytest.raises(TraceError, match="far more values"):
        read_pickle("x", chunks, Plain())


def test_more_containers_than_any_snapshot_has(monkeypatch):
    monkeypatch.setattr(pickles, "MOST_CONTAINERS", 1000)
    with pytest.raises(TraceError, match="no part of a memory snapshot"):
        read(pickle.dumps([[i] for i in range(2000)], 4))


def test_one_list_of_more_numbers_than_any_snapshot_has(monkeypatch):
    monkeypatch.setattr(pickles, "ALLOWANCE", 10_000)
    with pytest.raises(TraceError, match="far more values"):
        read(b"\x80\x04](" + b"NNNNNNNNe(" * 20_000 + b"e.", 4096)
