"""The names that analyses look for: one real example each."""

from __future__ import annotations

import pytest

from profsuite.analyzers.host_calls import (
    CLASSES,
    communicates,
    host_classes,
    launches_work,
    waits_for_events,
    waits_for_values,
)

NAMES = [
    ("cuda_runtime", "cudaStreamSynchronize", "sync"),
    ("cuda_runtime", "cudaDeviceSynchronize", "sync"),
    ("cuda_runtime", "cudaEventSynchronize", "sync"),
    ("cuda_runtime", "hipEventSynchronize", "sync"),
    ("cuda_driver", "cuCtxSynchronize", "sync"),
    ("", "AscendCL@aclrtSynchronizeStreamWithTimeout", "sync"),
    ("cuda_runtime", "cudaMemcpy", "sync"),
    ("cuda_runtime", "hipMemcpyWithStream", "sync"),
    ("cuda_driver", "cuMemcpyDtoH_v2", "sync"),
    ("cuda_runtime", "cudaMemcpyAsync", "launch"),
    ("cuda_driver", "cuMemcpyHtoDAsync_v2", "launch"),
    ("Runtime", "cudaLaunchKernel", "launch"),
    ("cuda_runtime", "cudaEventQuery", "launch"),
    ("dequeue", "Dequeue@aclnnMuls", "launch"),
    ("cuda_runtime", "cudaMalloc", "allocator"),
    ("cuda_runtime", "cudaFree", "allocator"),
    ("cuda_runtime", "cudaHostAlloc", "allocator"),
    ("cuda_runtime", "hipMalloc", "allocator"),
    ("cuda_driver", "cuMemCreate", "allocator"),
    ("cuda_driver", "cuMemUnmap", "allocator"),
    ("user_annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", "input"),
    ("Operator", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "input"),
    ("python_function", "torch/utils/data/dataloader.py(701): __next__", "input"),
    ("user_annotation", "data_loading", "input"),
    ("user_annotation", "get_batch", "input"),
    ("cpu_op", "fbgemm::get_batch_offsets", "op"),
    ("user_annotation", "_compile.compile_inner (dynamo_timed)", "compile"),
    ("user_annotation", "torch.compile forward 2/1", "compile"),
    ("user_annotation", "torch.compile forward 2/1 backward", "compile"),
    ("user_annotation", "torch.compile is slow", "python"),
    ("python_function", "torch/_dynamo/convert_frame.py(1335): __call__", "compile"),
    ("python_function", "triton/compiler/compiler.py(226): compile", "compile"),
    ("python_function", "torch/_dynamo/eval_frame.py(655): _fn", "python"),
    ("user_annotation", "Torch-Compiled Region: 0/0", "python"),
    ("python_function", "Python GC", "gc"),
    ("python_function", "<built-in function collect>", "gc"),
    ("python_function", "<built-in method collect of X object at 0x1>", "gc"),
    ("python_function", "collections.py(1): collect_stats", "python"),
    ("cpu_op", "aten::addmm", "op"),
    ("Operator", "ProfilerStep#5", "python"),
    ("Operator", "Optimizer.step#SGD.step", "python"),
]


@pytest.mark.parametrize(("category", "name", "expected"), NAMES)
def test_class_by_category_and_name(job, category, name, expected):
    trace = job.op("aten::anchor", 0, 1).slice(category, name, 10, 10).trace()
    assert CLASSES[host_classes(trace)[1]] == expected


def matches(job, which, name):
    trace = job.slice("cuda_runtime", name, 0, 1).trace()
    return bool(which(trace)[trace.array("slice", "name")[-1]])


@pytest.mark.parametrize(
    "name", ["cudaLaunchKernel", "cudaLaunchKernelExC", "hipModuleLaunchKernel", "cuLaunchKernelEx", "cudaGraphLaunch",
             "hipGraphLaunch", "hipExtModuleLaunchKernel", "cudaMemcpyAsync", "cudaMemsetAsync"],
)  # fmt: skip
def test_calls_that_start_work(job, name):
    assert matches(job, launches_work, name)


@pytest.mark.parametrize("name", ["cudaDeviceGetAttribute", "cudaStreamIsCapturing", "cudaMalloc", "cudaEventRecord"])
def test_calls_that_start_none(job, name):
    assert not matches(job, launches_work, name)


def test_calls_that_make_a_stream_wait(job):
    assert matches(job, waits_for_events, "cudaStreamWaitEvent")
    assert not matches(job, waits_for_events, "cudaEventSynchronize")


def test_communication_of_cpu_jobs(job):
    assert matches(job, communicates, "gloo:all_reduce")
    assert matches(job, communicates, "c10d::allreduce_")
    assert not matches(job, communicates, "mpi_rank")


def test_ops_that_read_values(job):
    assert matches(job, waits_for_values, "aten::_local_scalar_dense")
    assert not matches(job, waits_for_values, "aten::mm")
