"""Host breakdown: the innermost slice decides, the parts sum to the window."""

from __future__ import annotations

import random
from collections import Counter

import msgspec
import pytest

from profsuite.analyzers.host import host
from profsuite.trace.load import load


def parts(shares):
    """The parts that are not nothing, in us."""
    fields = msgspec.structs.asdict(shares)
    window = fields.pop("window_ns")
    assert sum(fields.values()) == window
    return {name.removesuffix("_ns"): ns // 1000 for name, ns in fields.items() if ns}


def test_the_innermost_slice_decides(job):
    job.python("train.py(1): step", 0, 100).op("aten::linear", 10, 50).op("aten::addmm", 20, 30)
    job.launch(25, 5, 1).call("cudaStreamSynchronize", 35, 10).kernel(30, 5, 1)
    job.op("aten::add", 110, 10)
    (thread,) = host(job.trace()).threads
    assert parts(thread.shares) == {"python": 50, "op": 45, "launch": 5, "sync": 10, "unrecorded": 10}
    assert (thread.thread, thread.num_launches) == ("thread 1", 1)


def test_input_compile_and_gc_claim_all_inside_them(job):
    job.mark("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 50).op("aten::stack", 10, 20)
    job.python("torch/_dynamo/convert_frame.py(5): __call__", 50, 30).op("aten::mm", 55, 5)
    job.python("Python GC", 85, 5)
    (thread,) = host(job.trace()).threads
    assert parts(thread.shares) == {"input": 50, "compile": 30, "gc": 5, "unrecorded": 5}


def test_python_inside_an_op_is_python(job):
    job.op("MyFunctionBackward", 0, 100).python("train.py(5): backward", 10, 80).op("aten::mul", 20, 10)
    (thread,) = host(job.trace()).threads
    assert parts(thread.shares) == {"op": 30, "python": 70}


def test_slices_that_overlap_without_nesting(job):
    job.op("aten::a", 0, 10).python("train.py(1): b", 5, 10)
    (thread,) = host(job.trace()).threads
    assert parts(thread.shares) == {"op": 5, "python": 10}


@pytest.mark.parametrize("around", [False, True])
def test_of_slices_that_overlap_the_one_that_began_last_decides_until_its_end(job, around):
    job.op("aten::b", 5, 10).python("train.py(1): a", 0, 10).op("aten::c", 20, 10).launch(25, 10, 1)
    parts_of = {"python": 5, "op": 15, "launch": 10}  # a 0 to 5, b to 15, c 20 to 25, its launch to 35
    if around:
        job.mark("round", 0, 40)
    (thread,) = host(job.trace()).threads
    rest = 10 if around else 5
    assert parts(thread.shares) == (parts_of | {"python": 5 + rest} if around else parts_of | {"unrecorded": rest})


def test_a_slice_of_its_parents_class_that_begins_inside_another_one(job):
    job.op("aten::linear", 0, 40).python("hook.py(1): f", 5, 10).op("aten::addmm", 10, 20)
    (thread,) = host(job.trace()).threads
    assert parts(thread.shares) == {"op": 35, "python": 5}


@pytest.mark.parametrize("seed", range(5))
def test_moment_by_moment(job, seed):
    """At each moment the slice that began last decides, of several that began together the shortest, then the later."""
    draw = random.Random(seed)
    slices = []
    for _ in range(60):
        start, dur = draw.randrange(200), draw.choice((1, 3, 10, 40))
        category, kind = draw.choice((("cpu_op", "op"), ("python_function", "python"), ("cuda_runtime", "launch")))
        job.slice(category, "f", start, dur)
        slices.append((start, -dur, len(slices), kind))
    first, last = min(s[0] for s in slices), max(s[0] - s[1] for s in slices)
    expected = Counter()
    for moment in range(first, last):
        running = [s for s in slices if s[0] <= moment < s[0] - s[1]]
        expected[max(running)[3] if running else "unrecorded"] += 1
    (thread,) = host(job.trace()).threads
    assert parts(thread.shares) == expected


def test_slices_that_begin_or_end_together(job):
    job.python("train.py(1): f", 0, 20).op("aten::a", 0, 10).op("aten::b", 10, 10).launch(15, 5, 1)
    (thread,) = host(job.trace()).threads
    assert parts(thread.shares) == {"op": 15, "launch": 5}


def test_the_thread_with_the_steps_is_the_main_one(job):
    job.mark("ProfilerStep#1", 0, 100).op("aten::mm", 10, 10)
    job.op("MmBackward0", 20, 60, tid=2).launch(30, 5, 1, tid=2).kernel(40, 5, 1)
    result = host(job.trace())
    assert [(t.thread, t.num_launches) for t in result.threads] == [("thread 1", 0), ("thread 2", 1)]
    assert [step.number for step in result.threads[0].steps] == [1]


@pytest.mark.parametrize(("own", "main"), [(2, "main thread"), (1, "thread 101")])
def test_without_steps_the_first_thread_of_the_process_with_a_third_of_the_most_launches(job, own, main):
    for i in range(own + 6):
        job.launch(10 * i, 5, i + 1, tid=100 if i < own else 101).kernel(10 * i + 6, 2, i + 1)
    assert host(job.trace()).threads[0].thread == main  # six launches on the other one


def test_threads_share_one_window_and_the_launching_one_comes_first(job):
    job.op("aten::long", 0, 100, tid=1).op("aten::mm", 20, 30, tid=2).launch(25, 5, 1, tid=2).kernel(40, 5, 1)
    result = host(job.trace())
    assert (result.start_ns, result.window_ns) == (0, 100_000)
    assert [(t.thread, parts(t.shares)) for t in result.threads] == [
        ("thread 2", {"op": 25, "launch": 5, "unrecorded": 70}),
        ("thread 1", {"op": 100}),
    ]


def test_each_step_of_the_first_thread(job):
    job.step(1, 0, 50).op("aten::a", 10, 20).step(2, 50, 50).op("aten::b", 90, 10)
    (thread,) = host(job.trace()).threads
    assert [(s.number, parts(s.shares)) for s in thread.steps] == [
        (1, {"op": 20, "python": 30}),
        (2, {"op": 10, "python": 40}),
    ]


def test_a_trace_without_host_slices(job):
    result = host(job.kernel(0, 10).trace())
    assert (result.window_ns, result.threads) == (None, ())


@pytest.mark.parametrize(
    "name", ["v100_resnet50_workers0.json.gz", "b200_eager_stacks.json.gz", "ascend_rank0.json.gz"]
)
def test_parts_of_real_threads_sum_to_the_window(real_trace, name):
    for thread in host(real_trace(name)).threads:
        parts(thread.shares)
        for step in thread.steps:
            parts(step.shares)


def test_spans_as_long_as_a_trace_can_have_them(tmp_path):
    """From -2^62 + 1 to 0, and on another thread from 2^62 - 1 to 2^63 - 2: further apart than an int64 counts."""
    limit = 2**62 - 1
    whole, rest = divmod(limit, 1000)
    events = ",".join(
        f'{{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":{tid},"ts":{sign}{whole}.{rest},"dur":{whole}.{rest}}}'
        for tid, sign in ((1, "-"), (2, ""))
    )
    path = tmp_path / "long.json"
    path.write_text(f"[{events}]", encoding="utf-8")
    found = host(load(path, cache=False))
    assert (found.start_ns, found.window_ns) == (-limit, 3 * limit)
    for thread in found.threads:
        assert thread.shares.window_ns == 3 * limit
        assert (thread.shares.op_ns, thread.shares.unrecorded_ns) == (limit, 2 * limit)
