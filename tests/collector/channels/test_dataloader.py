"""Waits for a batch."""

from __future__ import annotations

import time

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch.utils.data import DataLoader, Dataset  # noqa: E402
from torch.utils.data.dataloader import _BaseDataLoaderIter  # noqa: E402

from profsuite.analyzers.host_calls import INPUT, host_classes  # noqa: E402
from profsuite.collector.channels import dataloader  # noqa: E402
from profsuite.collector.channels.dataloader import DataLoaderChannel  # noqa: E402
from profsuite.collector.recorder import Recorder, available  # noqa: E402

ORIGINAL = _BaseDataLoaderIter.__next__


class Slow(Dataset):
    def __len__(self):
        return 3

    def __getitem__(self, index):
        time.sleep(0.01)
        return index


@pytest.fixture(autouse=True)
def nothing_stays():
    yield
    assert _BaseDataLoaderIter.__next__ is ORIGINAL


def test_each_batch_and_the_end_are_slices_that_the_analyzers_know(to_trace):
    channel = DataLoaderChannel()
    channel.start()
    assert [batch.item() for batch in DataLoader(Slow())] == [0, 1, 2]
    trace = to_trace(channel.stop())
    frame = trace.to_pandas("slice")
    assert set(frame["name"]) == {"enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"}
    assert (frame["dur"] > 10e6).tolist() == [True, True, True, False]
    assert set(host_classes(trace).tolist()) == {INPUT}
    assert channel.problems == []
    assert 0 < channel.overhead_ns < 100_000


def test_batches_are_bounded(to_trace, monkeypatch):
    monkeypatch.setattr(dataloader, "MAX_WAITS", 2)
    channel = DataLoaderChannel()
    channel.start()
    list(DataLoader(Slow()))
    assert to_trace(channel.stop()).num_rows("slice") == 2
    assert channel.problems == ["2 waits after the first 2 were not kept"]


def test_with_workers(to_trace):
    channel = DataLoaderChannel()
    channel.start()
    # Workers under the same hook neither hang nor record.
    assert len(list(DataLoader(Slow(), num_workers=1, multiprocessing_context="fork"))) == 3
    frame = to_trace(channel.stop()).to_pandas("slice")
    assert set(frame["name"]) == {"enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"}
    assert frame["track_id"].nunique() == 1


def test_what_a_profiler_records_is_not_repeated():
    channel = DataLoaderChannel()
    channel.start()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        list(DataLoader(Slow()))
    assert channel.stop() is None
    assert sum(event.name.startswith("enumerate(DataLoader)#") for event in profiler.events()) == 4


def test_what_the_recorder_records_is_not_repeated(to_trace):
    recorder = Recorder.load(wait=True) if available() else None
    if recorder is None:
        pytest.skip("the recorder is not built here")
    channel = DataLoaderChannel()
    channel.start()
    recorder.start()
    try:
        list(DataLoader(Slow()))
    finally:
        raw = recorder.stop()
    assert channel.stop() is None
    names = to_trace(raw).to_pandas("slice")["name"]
    assert names.str.startswith("enumerate(DataLoader)#").sum() == 4


def test_an_error_of_the_dataset_passes(to_trace):
    class Broken(Slow):
        def __getitem__(self, index):
            raise KeyError("no such sample")

    channel = DataLoaderChannel()
    channel.start()
    with pytest.raises(KeyError, match="no such sample"):
        next(iter(DataLoader(Broken())))
    assert to_trace(channel.stop()).num_rows("slice") == 1


def test_someone_elses_patch_stays_and_ours_goes_silent():
    channel = DataLoaderChannel()
    channel.start()
    ours = _BaseDataLoaderIter.__next__
    theirs = lambda loader: ours(loader)  # noqa: E731
    _BaseDataLoaderIter.__next__ = theirs
    try:
        channel.stop()
        assert _BaseDataLoaderIter.__next__ is theirs
        assert len(list(DataLoader(Slow()))) == 3
        assert channel.stop() is None
        assert "patched by someone else" in channel.problems[0]
    finally:
        _BaseDataLoaderIter.__next__ = ORIGINAL


def test_a_thousand_cycles_leave_nothing():
    channel = DataLoaderChannel()
    for _ in range(1000):
        channel.start()
        channel.start()
        channel.stop()
        assert channel.stop() is None
