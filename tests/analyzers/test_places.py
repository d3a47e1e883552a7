"""Labels of threads, lines of the user's code."""

from __future__ import annotations

import pytest

from profsuite.analyzers.kernel_families import FAMILIES, family
from profsuite.analyzers.places import is_user_frame, source_frame, thread_label


def row_of(trace, name):
    return trace.words("slice", "name").index(name)


def test_the_innermost_frame_of_the_users_code(job):
    job.python("train.py(88): train_step", 0, 100).python("model.py(12): forward", 10, 80)
    job.python("torch/nn/modules/linear.py(134): forward", 20, 60).python("<built-in function linear>", 25, 50)
    trace = job.op("aten::linear", 30, 40).trace()
    assert source_frame(trace, 4) == "model.py(12): forward"


def test_a_library_frame_where_there_is_no_other(job):
    trace = job.python("torch/nn/modules/linear.py(134): forward", 0, 60).op("aten::linear", 30, 20).trace()
    assert source_frame(trace, 1) == "torch/nn/modules/linear.py(134): forward"


def test_no_frame_without_stacks(job):
    assert source_frame(job.op("aten::linear", 0, 10).trace(), 0) is None


def test_thread_labels(job):
    job.events.append({"ph": "M", "name": "thread_name", "pid": 100, "tid": 1, "args": {"name": "thread 1 (python)"}})
    trace = job.op("a", 0, 1, tid=1).op("b", 0, 1, tid=2).trace()
    assert [thread_label(trace, track) for track in (0, 1)] == ["thread 1 (python)", "thread 2"]


def test_each_family_knows_its_example():
    assert [family(example) for _, _, example in FAMILIES] == [name for name, _, _ in FAMILIES]
    assert family("Kernel") == "other kernels"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("fused_moe_kernel", "matrix multiplications"),
        ("void marlin_moe_wna16::Marlin<__nv_bfloat16>", "matrix multiplications"),
        ("bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_et128x16", "matrix multiplications"),
        ("_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1", "matrix multiplications"),
        ("kernel_unified_attention_3d", "attention"),
        ("void vllm::paged_attention_v2_kernel<__nv_bfloat16>", "attention"),
        ("void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16>", "embedding and indexing"),
    ],
)
def test_families_of_serving_engines_kernels(name, expected):
    assert family(name) == expected


def test_the_first_thread_of_a_process_is_the_main_one(job):
    for tid, name in ((100, "thread 100 (profsuite)"), (101, "thread 101 (profsuite)"), (102, "loader")):
        job.events.append({"ph": "M", "name": "thread_name", "pid": 100, "tid": tid, "args": {"name": name}})
        job.op("a", 0, 1, tid=tid)
    job.slice("cpu_op", "a", 0, 1, tid=7, pid=7)
    job.slice("python_function", "threading.py(1032): _bootstrap", 0, 1, tid=0, pid=0)  # Kineto knew no thread
    trace = job.trace()
    labels = [thread_label(trace, track) for track in range(5)]
    assert labels == ["main thread", "thread 101 (profsuite)", "loader", "main thread", "thread 0"]


def test_a_name_of_its_own_stays(job):
    job.events.append({"ph": "M", "name": "thread_name", "pid": 100, "tid": 100, "args": {"name": "MainThread"}})
    assert thread_label(job.op("a", 0, 1, tid=100).trace(), 0) == "MainThread"


@pytest.mark.parametrize(
    "frame",
    [
        "profsuite/collector/channels/dataloader.py(84): __next__",
        "/opt/venv/lib/python3.11/site-packages/profsuite/collector/script.py(60): leave_and_step",
        "/home/me/checkout/collector/channels/dataloader.py(84): __next__",
        "profsuite/__main__.py(8): <module>",
    ],
)
def test_the_recorders_own_frames_are_not_the_users(job, frame):
    job.python("train.py(88): train", 0, 100).python(frame, 10, 80)
    trace = job.op("aten::stack", 20, 40).trace()
    assert source_frame(trace, 2) == "train.py(88): train"
    assert not is_user_frame(frame)


def test_a_users_project_may_have_any_name():
    assert is_user_frame("profsuite/train.py(3): main")
    assert is_user_frame("collector/window.py(3): main")
