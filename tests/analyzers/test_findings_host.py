"""Findings on the loader, the machine and the clocks, each with a trace where it must not fire."""

from __future__ import annotations

import pytest

from profsuite.analyzers.analysis import Analysis
from profsuite.analyzers.findings.worker_startup import startups
from profsuite.trace.load import load

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def counter(job, name, ts, **series):
    job.events.append({"ph": "C", "name": name, "pid": 100, "tid": 0, "ts": ts, "args": series})
    return job


def test_host_copies_in_the_loader(job, found, value):
    job.busy(10).mark(LOADER, 100, 100).op("aten::stack", 110, 60).op("aten::cat", 112, 50)
    finding = found(job.trace(), "host_copies")
    assert (finding.cost_ns, value(finding, "of it in the data loader")) == (50_000, 50_000)
    assert (value(finding, "longest"), finding.where.op) == ("aten::cat", "aten::cat")


def test_host_copies_between_launches(job, found, value):
    finding = found(job.busy(10).op("aten::copy_", 100, 60).trace(), "host_copies")
    assert (finding.cost_ns, value(finding, "of it in the data loader")) == (60_000, 0)


def test_host_copies_not_for_copies_that_the_device_does(job, found):
    job.busy(10).op("aten::copy_", 100, 60).call("cudaMemcpyAsync", 110, 5, 99).memcpy(600, 5, 99)
    assert found(job.trace(), "host_copies") is None


def test_host_copies_not_for_the_work_of_a_cpu_job(job, found):
    assert found(job.op("aten::copy_", 0, 60).op("aten::mm", 60, 40).trace(), "host_copies") is None


@pytest.fixture
def epochs(tmp_path):
    """A function that records three epochs of a loader with a worker."""
    torch = pytest.importorskip("torch")
    data = torch.utils.data

    def record(persistent):
        loader = data.DataLoader(
            data.TensorDataset(torch.arange(4.0)), batch_size=2, num_workers=1, persistent_workers=persistent
        )
        activities = [torch.profiler.ProfilerActivity.CPU]
        with torch.profiler.profile(activities=activities, with_stack=True) as profiler:
            for _ in range(3):
                for (batch,) in loader:
                    batch.sum()
        profiler.export_chrome_trace(str(tmp_path / "epochs.json"))
        return load(tmp_path / "epochs.json", cache=False)

    return record


def test_workers_that_start_again_as_recorded(epochs):
    assert len(startups(Analysis(epochs(persistent=False)))) == 3


def test_workers_that_live_on_as_recorded(epochs):
    assert len(startups(Analysis(epochs(persistent=True)))) == 1


def starting(job, times):
    """Epochs of 1000 us: 100 us to start the workers, 50 us until the first batch, 20 us to stop them."""
    for epoch in range(times):
        at = 1000 * epoch
        job.python("torch/utils/data/dataloader.py(433): _get_iterator", at, 100)
        job.python("multiprocessing/process.py(110): start", at + 10, 50)
        job.mark("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", at + 100, 50)
        job.mark("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", at + 400, 50)
        job.python("torch/utils/data/dataloader.py(1606): _shutdown_workers", at + 980, 20)
    return job


def test_worker_startup(job, found, value):
    finding = found(starting(job, 3).trace(), "worker_startup")
    assert value(finding, "times that workers were started") == 3
    assert (value(finding, "starting them"), value(finding, "first waits after it")) == (300_000, 150_000)
    assert value(finding, "stopping them") == 40_000  # they stop in the end in any case
    assert finding.cost_ns == 490_000
    assert finding.counted_in == ("input_bound",)


def test_worker_startup_not_for_the_first_start(job, found):
    assert found(starting(job, 1).trace(), "worker_startup") is None


def waiting(job, busy_pct, samples=5):
    job.busy(4).mark(LOADER, 300, 100).launch(401, 5, 99).kernel(410, 90, 99)
    for i in range(samples):
        counter(job, "CPU", 100 * i, system_pct=busy_pct, process_pct=250.0, threads=40)
    return job


def test_cpu_saturated(job, found, value):
    finding = found(waiting(job, 97.0).trace(), "cpu_saturated")
    assert (finding.severity, finding.cost_ns) == ("warning", None)
    assert (value(finding, "all cores busy, mean"), value(finding, "of it this process")) == (97.0, 2.5)


@pytest.mark.parametrize(("busy_pct", "samples"), [(80.0, 5), (97.0, 4)])
def test_cpu_saturated_not_with_free_cores_or_few_samples(job, found, busy_pct, samples):
    assert found(waiting(job, busy_pct, samples).trace(), "cpu_saturated") is None


def test_cpu_saturated_not_where_nothing_waits(job, found):
    job.busy(10)
    for i in range(5):
        counter(job, "CPU", 100 * i, system_pct=97.0)
    assert found(job.trace(), "cpu_saturated") is None


def throttled(job, reason, held, samples=10):
    """``held`` of the samples with the reason, at 1000 MHz instead of 1980."""
    job.busy(10)
    for i in range(samples):
        counter(job, "GPU 0 throttling", 50 * i, **{reason: float(i < held), "sync_boost": 0.0})
        counter(job, "GPU 0 clocks", 50 * i, sm_mhz=1000.0 if i < held else 1980.0)
    return job


def test_throttling(job, found, value):
    finding = found(throttled(job, "hardware_thermal", 4).trace(), "throttling")
    assert (finding.severity, finding.cost_ns, finding.where.device) == ("warning", None, 0)
    assert value(finding, "samples in which it is too hot (hardware)") == 40.0
    assert (value(finding, "highest SM clock seen"), value(finding, "mean SM clock while throttled")) == (1980, 1000)
    assert finding.where.end_ns - finding.where.start_ns == 150_000


def test_throttling_at_the_power_limit_is_only_worth_a_note(job, found):
    assert found(throttled(job, "power_cap", 9).trace(), "throttling").severity == "info"


@pytest.mark.parametrize(("held", "samples"), [(0, 10), (1, 11), (4, 4)])
def test_throttling_not_for_seldom_or_few_samples(job, found, held, samples):
    assert found(throttled(job, "hardware_thermal", held, samples).trace(), "throttling") is None


def test_step_outliers_tell_their_period_and_what_they_have_more_of(job, found, value):
    at = 0
    for number in range(12):
        slow = number % 4 == 3
        job.step(number, at, 300 if slow else 100).op("aten::mm", at + 1, 9)
        if slow:
            job.mark("save checkpoint", at + 20, 190)
        at += 300 if slow else 100
    finding = found(job.trace(), "step_outliers")
    assert value(finding, "they come every so many steps") == 4
    assert value(finding, "what takes most more time in them") == "save checkpoint"
    assert value(finding, "more by, in each") == 190_000
