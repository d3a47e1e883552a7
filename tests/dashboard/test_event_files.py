"""TensorBoard's event files: what its own writer wrote is read, and nothing else is taken for it."""

from __future__ import annotations

import math
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("dash", reason="the dashboard is not installed")

from profsuite.dashboard import event_files as module
from profsuite.dashboard.catalog import Catalog
from profsuite.dashboard.event_files import Scalar, read_scalars
from profsuite.dashboard.pages.scalars import scalars
from profsuite.dashboard.pages.view import View


def frame(data):
    head = struct.pack("<Q", len(data))
    return head + struct.pack("<I", module._masked(head)) + data + struct.pack("<I", module._masked(data))


def event(tag, value, step, when=1.0):
    """An event with a ``simple_value``, byte by byte."""
    inner = b"\x0a" + bytes([len(tag)]) + tag.encode() + b"\x15" + struct.pack("<f", value)
    summary = b"\x0a" + bytes([len(inner)]) + inner
    return b"\x09" + struct.pack("<d", when) + b"\x10" + bytes([step]) + b"\x2a" + bytes([len(summary)]) + summary


@pytest.fixture
def write(tmp_path):
    """A function from bytes to the path of a file of them."""

    def make(data, name="events.out.tfevents.1.node"):
        (tmp_path / name).write_bytes(data)
        return tmp_path / name

    return make


def test_the_check_sum():
    """CRC-32C of the digits is the check value of its specification (RFC 3720, appendix B.4 has others)."""

    def unmasked(data):
        turned = (module._masked(data) - 0xA282EAD8) & 0xFFFFFFFF
        return (turned >> 17 | turned << 15) & 0xFFFFFFFF

    assert unmasked(b"123456789") == 0xE3069283
    assert unmasked(bytes(32)) == 0x8A9136AA
    assert unmasked(b"\xff" * 32) == 0x62A8AB43


def test_what_tensorboard_writes(tmp_path):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed: pip install 'profsuite[tensorboard]'")
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.plugins.scalar.summary_v2 import scalar_pb
    from tensorboard.plugins.text.summary_v2 import text_pb
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    writer = EventFileWriter(str(tmp_path))
    for step in (2, 0, 1):
        writer.add_event(Event(wall_time=100.5 + step, step=step, summary=scalar_pb("train/loss", 4.5 - step)))
        old = Summary(value=[Summary.Value(tag="lr", simple_value=0.25)])
        writer.add_event(Event(wall_time=100.5 + step, step=step, summary=old))
    writer.add_event(Event(wall_time=1, step=2**40, summary=scalar_pb("far", 1)))
    writer.add_event(Event(wall_time=1, step=0, summary=text_pb("words", "no number")))
    writer.add_event(Event(wall_time=1, step=-1, summary=scalar_pb("none", math.nan)))
    writer.close()
    (path,) = tmp_path.iterdir()
    read = read_scalars([path])
    assert read.found == (
        Scalar("far", (2**40,), (1.0,), (1.0,)),
        Scalar("lr", (0, 1, 2), (100.5, 101.5, 102.5), (0.25, 0.25, 0.25)),
        Scalar("train/loss", (0, 1, 2), (100.5, 101.5, 102.5), (4.5, 3.5, 2.5)),
    )
    assert read.faults == [f"{path.name}: passed over 1 value without a finite number"]


def test_several_files_are_one(write):
    first = write(frame(event("loss", 2, 1)), "events.out.tfevents.1.a")
    second = write(frame(event("loss", 1, 2)) + frame(event("acc", 3, 0)), "events.out.tfevents.2.a")
    read = read_scalars([first, second])
    assert [(each.tag, each.step, each.value) for each in read.found] == [
        ("acc", (0,), (3.0,)),
        ("loss", (1, 2), (2.0, 1.0)),
    ]
    assert read.faults == []


def test_damage(write):
    good = [frame(event("loss", n, n)) for n in range(5)]
    # A bit of a record's data: that record alone.
    hurt = bytearray(b"".join(good))
    hurt[len(good[0]) + 20] ^= 1
    read = read_scalars([write(hurt)])
    assert read.found[0].step == (0, 2, 3, 4)
    assert "1 damaged record" in read.faults[0]
    # A bit of a length: nothing after it can be found.
    hurt = bytearray(b"".join(good))
    hurt[len(good[0])] ^= 1
    read = read_scalars([write(hurt)])
    assert read.found[0].step == (0,)
    assert f"damaged from byte {len(good[0])} on" in read.faults[0]
    read = read_scalars([write(b"".join(good)[:-3])])
    assert read.found[0].step == (0, 1, 2, 3)
    assert "ends within a record" in read.faults[0]


def test_a_length_that_lies(write):
    head = struct.pack("<Q", 2**62)
    read = read_scalars([write(head + struct.pack("<I", module._masked(head)) + b"x" * 100)])
    assert read.found == ()
    assert "only the first 64 MB" in read.faults[0]


def test_no_event_file(write, tmp_path):
    assert "is no event file" in read_scalars([write(b'{"traceEvents": []}')]).faults[0]
    assert "cannot be read" in read_scalars([tmp_path / "missing"]).faults[0]
    assert read_scalars([write(b"")]).faults == []


@settings(deadline=None, max_examples=300)
@given(st.lists(st.binary(max_size=60), max_size=4))
def test_records_may_hold_anything(tmp_path_factory, records):
    path = tmp_path_factory.mktemp("events") / "events.out.tfevents.1.x"
    path.write_bytes(b"".join(map(frame, records)))
    for each in read_scalars([path]).found:
        assert all(math.isfinite(value) for value in each.value)


def test_on_the_page_beside_its_trace(folder, open_session, job, hostile):
    (folder / "events.out.tfevents.1.node").write_bytes(
        b"".join(frame(event("train/loss", 3 - n, n)) for n in range(3)) + frame(event(hostile[:100], 1, 1))
    )
    (folder.parent / "events.out.tfevents.9.secret").write_bytes(frame(event("secret", 1, 1)))
    (folder / "events.out.tfevents.2.link").symlink_to(folder.parent / "events.out.tfevents.9.secret")
    session = open_session(job())
    assert scalars(View(session)) == []
    # A file that was given alone shows nothing of what lies around it.
    for roots, shown in (([folder], True), ([folder / "job.json"], False)):
        session.entry = next(iter(Catalog(roots).entries.values()))
        made = scalars(View(session))
        assert bool(made) == shown
        text = str(made)
        assert ("train/loss" in text) == shown
        assert "secret" not in text
