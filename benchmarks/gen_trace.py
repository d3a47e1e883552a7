#!/usr/bin/env python3
"""Generate synthetic PyTorch/Kineto Chrome-trace JSON files for benchmarks and tests.

No torch and no GPU needed: a small discrete simulation of one data-parallel (DDP)
training job is run, and written byte for byte in the layout of libkineto's
``output_json.cpp`` (torch >= 2.13 by default, the older layout with ``--layout classic``,
or re-serialised JSON on one line with ``--layout compact``).

What one simulated training step holds, for every rank:

* ``ProfilerStep#N`` (CPU and GPU annotation) around everything;
* a data-loader wait of varying length (=> an idle gap on the GPU), HtoD copies, a stream sync;
* forward on the main thread: nested ``aten::`` ops -> ``cudaLaunchKernel`` -> kernel on stream 7,
  with ``ac2g`` flows, python stacks, ``[memory]`` instants and shapes;
* backward on a second CPU thread (``fwdbwd`` flows by sequence number);
* one NCCL all-reduce for each gradient bucket (``record_param_comms``; kernel on stream 20)
  that overlaps the rest of backward, its last bucket exposed.  Ranks are coupled: a collective
  ends everywhere at once, when the last rank has joined it and the data has moved;
* a launch-bound optimizer (small kernels, gaps between them) and ``loss.item()``
  (DtoH copy and ``cudaStreamSynchronize``).

Output: ``DIR/rank_<r>.json[.gz]`` and ``DIR/truth.json``, the ground truth kept by the simulation
(events by category, busy time by stream, comm/compute overlap, launches, clock offset, time waited
for later ranks and caused to others), to test analyzers against.  Same arguments and seed => same bytes.

Examples:
    python gen_trace.py --size-mb 200 --ranks 1 --out out
    python gen_trace.py --size-mb 20 --ranks 8 --slow-rank 3 --slow-factor 1.3 --gzip --out out8
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
from collections import Counter
from pathlib import Path

COMPUTE_STREAM, COMM_STREAM = 7, 20
US, MS = 1_000, 1_000_000
BASE_NS = 1_790_857_026_000_000_000  # "baseTimeNanoseconds"; every ts is relative to it
T0_NS = 5_199_373_040_000_000


def us(ns: int) -> str:
    """Nanoseconds as Kineto prints them: microseconds with three decimals."""
    return f"{ns // 1000}.{ns % 1000:03d}"


# --------------------------------------------------------------------------- the file's layout
class Writer:
    """Formats events; one instance a rank.  Buffers text, `drain()` gives and empties it."""

    def __init__(self, layout: str, clock_offset: int = 0) -> None:
        self.clock_offset = clock_offset  # ns that this rank's clock is ahead of the true one
        self.buf: list[str] = []
        self.counts: Counter[str] = Counter()
        if layout == "current":  # libkineto as of torch 2.13: one field a line
            self._x = (
                '\n  {{\n    "ph": "X",\n    "cat": "{}",\n    "name": "{}",\n    "pid": {},\n    "tid": {},\n'
                '    "ts": {},\n    "dur": {}\n    ,\n    "args": {{\n      {}\n    }}\n  }},'
            )
            self._i = (
                '\n  {{\n    "ph": "i",\n    \n    "cat": "{}",\n    "s": "t",\n    "name": "{}",\n    "pid": {},\n'
                '    "tid": {},\n    "ts": {}\n    ,\n    "args": {{\n      {}\n    }}\n  }},'
            )
            self._flow = (
                '\n  {{\n    "ph": "{}",\n    "id": {},\n    "pid": {},\n    "tid": {},\n    "ts": {},\n'
                '    "cat": "{}",\n    "name": "{}"\n    {}\n  }},'
            )
            self._meta = (
                '\n  {{\n    "ph": "M",\n    "name": "{}",\n    "ts": {},\n    "pid": {},\n    "tid": {},\n'
                '    "args": {{\n      "{}": {}\n    }}\n  }},'
            )
        elif layout == "classic":  # libkineto of about torch 1.8 to 2.12
            self._x = (
                '\n  {{\n    "ph": "X", "cat": "{}", "name": "{}", "pid": {}, "tid": {},\n'
                '    "ts": {}, "dur": {},\n    "args": {{\n      {}\n    }}\n  }},'
            )
            self._i = (
                '\n  {{\n    "ph": "i", "cat": "{}", "s": "t", "name": "{}",\n    "pid": {}, "tid": {},\n'
                '    "ts": {},\n    "args": {{\n      {}\n    }}\n  }},'
            )
            self._flow = (
                '\n  {{\n    "ph": "{}", "id": {}, "pid": {}, "tid": {}, "ts": {},\n'
                '    "cat": "{}", "name": "{}"{}\n  }},'
            )
            self._meta = (
                '\n  {{\n    "name": "{}", "ph": "M", "ts": {}, "pid": {}, "tid": {},\n'
                '    "args": {{\n      "{}": {}\n    }}\n  }},'
            )
        elif layout == "compact":  # as after json.load + json.dump
            self._x = (
                '{{"ph": "X", "cat": "{}", "name": "{}", "pid": {}, "tid": {}, "ts": {}, "dur": {}, "args": {{{}}}}}, '
            )
            self._i = (
                '{{"ph": "i", "cat": "{}", "s": "t", "name": "{}", "pid": {}, "tid": {}, "ts": {}, "args": {{{}}}}}, '
            )
            self._flow = '{{"ph": "{}", "id": {}, "pid": {}, "tid": {}, "ts": {}, "cat": "{}", "name": "{}"{}}}, '
            self._meta = '{{"name": "{}", "ph": "M", "ts": {}, "pid": {}, "tid": {}, "args": {{"{}": {}}}}}, '
        else:
            raise ValueError(layout)
        self.layout = layout

    def x(self, cat: str, name: str, pid, tid, ts: int, dur: int, args: str) -> None:
        self.counts["X/" + cat] += 1
        self.buf.append(self._x.format(cat, name, pid, tid, us(ts + self.clock_offset), us(dur), args))

    def instant(self, cat: str, name: str, pid, tid, ts: int, args: str) -> None:
        self.counts["i/" + cat] += 1
        self.buf.append(self._i.format(cat, name, pid, tid, us(ts + self.clock_offset), args))

    def flow(self, ph: str, ident: int, pid, tid, ts: int, cat: str) -> None:
        self.counts[ph + "/" + cat] += 1
        bind = ', "bp": "e"' if ph == "f" else ""
        self.buf.append(self._flow.format(ph, ident, pid, tid, us(ts + self.clock_offset), cat, cat, bind))

    def meta(self, name: str, pid, tid, key: str, value: str, ts: int = T0_NS) -> None:
        self.counts["M/"] += 1
        self.buf.append(self._meta.format(name, us(ts), pid, tid, key, value))

    def header(self, rank: int, world: int, gpu: str) -> None:
        dev = (
            f'{{"id": {rank % 8}, "name": "{gpu}", "totalGlobalMem": 84942979072, "computeMajor": 9, '
            '"computeMinor": 0, "maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": 2048, '
            '"regsPerBlock": 65536, "warpSize": 32, "sharedMemPerBlock": 49152, "numSms": 132, '
            '"regsPerMultiprocessor": 65536, "sharedMemPerBlockOptin": 232448, '
            '"sharedMemPerMultiprocessor": 233472}'
        )
        ranks = list(range(world))
        dist = (
            f'{{"backend": "nccl", "rank": {rank}, "world_size": {world}, "pg_count": 1, "pg_config": '
            f'[{{"pg_name": "0", "pg_desc": "default_pg", "backend_config": "cuda:nccl", "pg_size": {world}, '
            f'"ranks": {ranks}}}], "nccl_version": "2.27.5"}}'
        )
        if self.layout == "current":
            self.buf.append(
                f' {{\n    "schemaVersion": 1,\n    "deviceProperties": [{dev}],\n    \n'
                f'      "distributedInfo": {dist},\n      "with_stack": 1,\n      "record_shapes": 1,\n'
                f'      "profile_memory": 1,\n      "host_name": "synthetic",\n    "displayTimeUnit": "ms",\n'
                f'    "baseTimeNanoseconds": {BASE_NS},\n    "traceEvents": [\n    '
            )
        elif self.layout == "classic":
            self.buf.append(
                f'\n{{\n  "schemaVersion": 1,\n  "deviceProperties": [\n    {dev}\n  ],\n'
                f'  "distributedInfo": {dist},\n  "with_stack": 1,\n  "record_shapes": 1,\n'
                f'  "displayTimeUnit": "ms",\n  "baseTimeNanoseconds": {BASE_NS},\n  "traceEvents": ['
            )
        else:
            self.buf.append(
                f'{{"schemaVersion": 1, "deviceProperties": [{dev}], "distributedInfo": {dist}, '
                f'"displayTimeUnit": "ms", "baseTimeNanoseconds": {BASE_NS}, "traceEvents": ['
            )

    def footer(self, end: int, path: str) -> None:
        self.counts["i/"] += 1
        if self.layout == "current":
            self.buf.append(
                f'\n  {{\n    "ph": "i",\n    \n    "s": "g",\n    "name": "Record Window End",\n    "pid": "",\n'
                f'    "tid": "",\n    "ts": {us(end)}\n    \n  }}\n  ],"traceName": "{path}" }}'
            )
        elif self.layout == "classic":
            self.buf.append(
                f'\n  {{\n    "name": "Record Window End", "ph": "i", "s": "g",\n    "pid": "", "tid": "", '
                f'"ts": {us(end)}\n  }}\n  ],\n  "traceName": "{path}"\n}}\n'
            )
        else:
            self.buf.append(
                f'{{"name": "Record Window End", "ph": "i", "s": "g", "pid": "", "tid": "", '
                f'"ts": {us(end)}}}], "traceName": "{path}"}}'
            )

    def drain(self) -> str:
        text = "".join(self.buf)
        self.buf.clear()
        return text


# --------------------------------------------------------------------------- the simulated model
class Kernel:
    """A GPU kernel of the model: its name, mean time and launch settings."""

    def __init__(self, name, mean_us, grid, block, regs=64, smem=0):
        self.name, self.mean = name, mean_us * US
        warps = block[0] * block[1] * block[2] / 32
        blocks_sm = grid[0] * grid[1] * grid[2] / 132
        occ = min(100, round(100 * min(blocks_sm * warps, 64, 65536 // (regs * 32)) / 64))
        self.tail = (
            f'"registers per thread": {regs}, "shared memory": {smem}, "blocks per SM": {blocks_sm:.6f}, '
            f'"warps per SM": {blocks_sm * warps:.6f}, "grid": [{grid[0]}, {grid[1]}, {grid[2]}], '
            f'"block": [{block[0]}, {block[1]}, {block[2]}], "est. achieved occupancy %": {occ}'
        )


_ANON = "at::native::(anonymous namespace)::"
GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize{}_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas"
ELT = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::{0}<c10::BFloat16>, "
    "std::array<char*, {1}ul> >(int, at::native::{0}<c10::BFloat16>, std::array<char*, {1}ul>)"
)
FLASH = (
    "void pytorch_flash::flash_{0}_kernel<pytorch_flash::Flash_{0}_kernel_traits<64, 128, 128, 4, false, false, "
    "cutlass::bfloat16_t, pytorch_flash::Flash_kernel_traits<64, 128, 128, 4, cutlass::bfloat16_t> >, false, true, "
    "false, false, true, true, false, false>(pytorch_flash::Flash_{0}_params)"
)
LN_F = f"void {_ANON}vectorized_layer_norm_kernel<c10::BFloat16, float, false>(int, float, c10::BFloat16 const*, c10::BFloat16 const*, c10::BFloat16 const*, float*, float*, c10::BFloat16*)"
LN_B = f"void {_ANON}layer_norm_grad_input_kernel_vectorized<c10::BFloat16, float, false>(c10::BFloat16 const*, c10::BFloat16 const*, float const*, float const*, c10::BFloat16 const*, c10::BFloat16*, int)"
MTA = (
    f"void {_ANON}multi_tensor_apply_kernel<{_ANON}TensorListMetadata<{{1}}>, {_ANON}{{0}}<float, {{1}}, {{1}}, 0>, "
    f"std::plus<float>, float>({_ANON}TensorListMetadata<{{1}}>, {_ANON}{{0}}<float, {{1}}, {{1}}, 0>, std::plus<float>, float)"
)
RED = "void at::native::reduce_kernel<128, 4, at::native::ReduceOp<c10::BFloat16, at::native::func_wrapper_t<c10::BFloat16, at::native::sum_functor<c10::BFloat16, float, c10::BFloat16> >, unsigned int, c10::BFloat16, 4, 4> >(at::native::ReduceOp<c10::BFloat16, at::native::func_wrapper_t<c10::BFloat16, at::native::sum_functor<c10::BFloat16, float, c10::BFloat16> >, unsigned int, c10::BFloat16, 4, 4>)"
NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"

B, S, H, V = 8, 2048, 1024, 50304
T = B * S


class Op:
    """One differentiable op: nested CPU op names, module, kernels forward and backward, shapes."""

    def __init__(self, chain, module, bwd, fwd_k, bwd_k, dims, types, out_bytes):
        self.chain, self.module, self.bwd = chain, module, bwd
        self.fwd_k, self.bwd_k, self.out = fwd_k, bwd_k, out_bytes
        strides = [[d[1], 1] if len(d) == 2 else ([1] if len(d) == 1 else []) for d in dims]
        conc = json.dumps(["" if d else "1" for d in dims])
        self.shape_args = (
            f', "Concrete Inputs": {conc}, "Input type": {json.dumps(types)}, '
            f'"Input Strides": {json.dumps(strides)}, "Input Dims": {json.dumps(dims)}'
        )


def _linear(module, n_in, n_out, mean, tile="128x128x64"):
    g = Kernel(GEMM.format(tile), mean, (132, 1, 1), (384, 1, 1), 168, 213_000)
    red = Kernel(RED, mean * 0.15, (n_out // 32, 1, 1), (32, 16, 1), 40, 16)
    bf = "c10::BFloat16"
    return Op(
        ["aten::linear", "aten::addmm"],
        module,
        "AddmmBackward0",
        [g],
        [("aten::mm", g), ("aten::mm", g), ("aten::sum", red)],
        [[n_out], [T, n_in], [n_in, n_out], [], []],
        [bf, bf, bf, "Scalar", "Scalar"],
        T * n_out * 2,
    )


def _pointwise(chain, module, bwd, functor, n, mean, dims):
    k = Kernel(ELT.format(functor, n), mean, (T * H // 4096, 1, 1), (128, 1, 1), 28)
    kb = Kernel(ELT.format(functor + "Backward", n), mean * 1.2, (T * H // 4096, 1, 1), (128, 1, 1), 32)
    return Op(chain, module, bwd, [k], [(chain[-1] + "_backward", kb)], dims, ["c10::BFloat16"] * len(dims), T * H * 2)


def build_layer() -> list[Op]:
    bf = "c10::BFloat16"
    norm = Op(
        ["aten::layer_norm", "aten::native_layer_norm"],
        "LayerNorm",
        "NativeLayerNormBackward0",
        [Kernel(LN_F, 22, (T, 1, 1), (32, 4, 1), 40, 24)],
        [("aten::native_layer_norm_backward", Kernel(LN_B, 35, (T, 1, 1), (128, 1, 1), 48, 32))],
        [[T, H], [], [H], [H], []],
        [bf, "ScalarList", bf, bf, "Scalar"],
        T * H * 2,
    )
    attn = Op(
        [
            "aten::scaled_dot_product_attention",
            "aten::_scaled_dot_product_flash_attention",
            "aten::_flash_attention_forward",
        ],
        "CausalSelfAttention",
        "ScaledDotProductFlashAttentionBackward0",
        [Kernel(FLASH.format("fwd"), 190, (16, B, 16), (128, 1, 1), 255, 81_920)],
        [
            (
                "aten::_flash_attention_backward",
                Kernel(FLASH.format("bwd_dq_dk_dv_loop_seqk_parallel"), 520, (16, B, 16), (256, 1, 1), 255, 147_456),
            )
        ],
        [[B * 16 * S, 64], [B * 16 * S, 64], [B * 16 * S, 64]],
        [bf] * 3,
        T * H * 2,
    )
    drop = _pointwise(
        ["aten::dropout", "aten::native_dropout"],
        "Dropout",
        "NativeDropoutBackward0",
        "FusedDropout",
        3,
        18,
        [[T, H], [], []],
    )
    add = _pointwise(["aten::add"], "Block", "AddBackward0", "CUDAFunctor_add", 3, 20, [[T, H], [T, H], []])
    gelu = _pointwise(["aten::gelu"], "GELU", "GeluBackward0", "GeluCUDAKernelImpl", 2, 48, [[T, 4 * H]])
    return [
        norm, _linear("Linear", H, 3 * H, 160), attn, _linear("Linear", H, H, 60), drop, add,
        norm, _linear("Linear", H, 4 * H, 215, "128x256x64"), gelu, _linear("Linear", 4 * H, H, 215, "128x256x64"), drop, add,
    ]  # fmt: skip


LAYER = build_layer()
HEAD = [
    _linear("Linear", H, V, 2400, "128x256x64"),
    Op(
        ["aten::cross_entropy_loss", "aten::log_softmax", "aten::_log_softmax"],
        "CrossEntropyLoss",
        "LogSoftmaxBackward0",
        [Kernel(f"void {_ANON}cunn_SoftMaxForward<8, c10::BFloat16, float, float, {_ANON}LogSoftMaxForwardEpilogue>(float*, c10::BFloat16 const*, int)", 700, (T, 1, 1), (1024, 1, 1), 32, 128)],
        [("aten::_log_softmax_backward_data", Kernel(f"void {_ANON}cunn_SoftMaxBackward<8, float, float, c10::BFloat16, {_ANON}LogSoftMaxBackwardEpilogue>(c10::BFloat16*, float const*, float const*, long)", 900, (T, 1, 1), (1024, 1, 1), 32, 128))],
        [[T, V], [T], [], [], []],
        ["c10::BFloat16", "long int", "", "Scalar", "Scalar"],
        T * V * 4,
    ),
]  # fmt: skip
OPT_OPS = [("aten::_foreach_lerp_", "ScalarOpScalarFunctor", 3), ("aten::_foreach_mul_", "BinaryOpScalarFunctor", 1),
           ("aten::_foreach_addcmul_", "PointwiseOpScalarFunctor", 3), ("aten::_foreach_sqrt", "UnaryOpFunctor", 2),
           ("aten::_foreach_div_", "BinaryOpListAlphaFunctor", 2), ("aten::_foreach_addcdiv_", "PointwiseOpScalarListFunctor", 3)]  # fmt: skip
OPT = [(n, Kernel(MTA.format(f, d), 6, (320, 1, 1), (512, 1, 1), 48)) for n, f, d in OPT_OPS]


class Rank:
    """Timeline and counters of one rank."""

    def __init__(self, rank: int, args: argparse.Namespace) -> None:
        self.a, self.rank, self.dev = args, rank, rank % 8
        self.rng = random.Random(args.seed * 100_003 + rank)
        skew = args.clock_skew_us * US
        self.w = Writer(args.layout, self.rng.randint(-skew, skew) if skew else 0)
        self.pid = 15_000 + 97 * rank
        self.main, self.bwd_tid = self.pid, self.pid + 1_311
        self.t = T0_NS  # CPU clock
        self.free = {COMPUTE_STREAM: self.t, COMM_STREAM: self.t}  # when each stream falls idle
        self.slow = args.slow_factor if rank == args.slow_rank else 1.0
        self.ext = self.corr = self.evidx = self.seqno = self.pyid = 0
        self.rfid, self.addr, self.alloc = 0, 0x7F13_0000_0000, 2 << 30
        self.coll_seq = 0
        self.waited = self.caused = 0  # ns spent waiting for later ranks; ns that the others waited for this one
        self.live: list[tuple[int, int]] = []
        self.busy: Counter[int] = Counter()
        self.launches = 0
        self.compute_iv: list[tuple[int, int]] = []
        self.comm_iv: list[tuple[int, int]] = []
        self.overlap = self.comm_busy = 0

    # -- small pieces ---------------------------------------------------------------------
    def jit(self, mean: float, rel: float = 0.06) -> int:
        return max(800, int(mean * (1.0 + rel * (2.0 * self.rng.random() - 1.0))))

    def cpu_op(self, name, tid, start, end, extra="", cat="cpu_op", shape=True) -> int:
        self.ext += 1
        self.evidx += 1
        args = f'"External id": {self.ext},"Record function id": {self.rfid}{extra if shape else ""}, "Ev Idx": {self.evidx}'
        self.w.x(cat, name, self.pid, tid, start, end - start, args)
        return self.ext

    def runtime(self, name, tid, start, dur, ext=None, cbid=211, flow=False) -> int:
        self.corr += 1
        pre = f'"External id": {ext},' if ext else ""
        self.w.x("cuda_runtime", name, self.pid, tid, start, dur, f'{pre}"cbid": {cbid}, "correlation": {self.corr}')
        if flow:
            self.w.flow("s", self.corr, self.pid, tid, start, "ac2g")
        return self.corr

    def gpu(self, cat, name, stream, start, dur, corr, ext, args) -> None:
        pre = f'"External id": {ext},' if ext else ""
        self.w.x(cat, name, self.dev, stream, start, dur, pre + args)
        self.w.flow("f", corr, self.dev, stream, start, "ac2g")
        self.busy[stream] += dur
        self.launches += 1
        (self.comm_iv if stream == COMM_STREAM else self.compute_iv).append((start, start + dur))

    def kernel(self, k: Kernel, tid, ext) -> None:
        """Launch `k` from `tid` now, on the compute stream."""
        launch = self.jit(4.2 * US, 0.3)
        corr = self.runtime("cudaLaunchKernel", tid, self.t, launch, ext, flow=True)
        start = max(self.t + launch + 1_500, self.free[COMPUTE_STREAM] + 900)
        dur = self.jit(k.mean * self.slow)
        self.t += launch
        self.free[COMPUTE_STREAM] = start + dur
        args = f'"queued": 0, "device": {self.dev}, "context": 1, "stream": {COMPUTE_STREAM}, "correlation": {corr}, {k.tail}'
        self.gpu("kernel", k.name, COMPUTE_STREAM, start, dur, corr, ext, args)

    def memcpy(self, kind, tid, ext, nbytes, gbps) -> None:
        corr = self.runtime("cudaMemcpyAsync", tid, self.t, 6_000, ext, 41, flow=True)
        start = max(self.t + 8_000, self.free[COMPUTE_STREAM] + 900)
        dur = 1_200 + int(nbytes / gbps)
        self.t += 6_500
        self.free[COMPUTE_STREAM] = start + dur
        args = (f'"device": {self.dev}, "context": 1, "stream": {COMPUTE_STREAM}, "correlation": {corr}, '
                f'"bytes": {nbytes}, "memory bandwidth (GB/s)": {nbytes / dur!r}')  # fmt: skip
        self.gpu("gpu_memcpy", f"Memcpy {kind}", COMPUTE_STREAM, start, dur, corr, ext, args)

    def sync(self, tid, ext) -> None:
        """cudaStreamSynchronize: the CPU waits until the compute stream is idle."""
        end = max(self.t + 2_000, self.free[COMPUTE_STREAM] + 1_000)
        corr = self.runtime("cudaStreamSynchronize", tid, self.t, end - self.t, ext, 131)
        if self.a.cuda_sync:
            self.w.x("cuda_sync", "Stream Sync", self.dev, COMPUTE_STREAM, self.t, end - self.t,
                     f'"cuda_sync_kind": "Stream Sync", "stream": {COMPUTE_STREAM}, "correlation": {corr}, "device": {self.dev}, "context": 1')  # fmt: skip
        self.t = end

    def memory(self, tid, nbytes) -> None:
        if self.a.no_memory:
            return
        if nbytes > 0:
            self.addr += (nbytes + 511) // 512 * 512
            addr = self.addr
            self.live.append((addr, nbytes))
        else:
            addr, n = self.live.pop()
            nbytes = -n
        self.alloc += nbytes
        self.evidx += 1
        self.w.instant("cpu_instant_event", "[memory]", self.pid, tid, self.t,
                       f'"Total Reserved": 42949672960, "Total Allocated": {self.alloc}, "Bytes": {nbytes}, "Device Id": {self.dev}, '
                       f'"Device Type": 1, "Addr": {addr}, "Ev Idx": {self.evidx}')  # fmt: skip

    def py(self, name, tid, start, end, pid_parent, module_id=None) -> int:
        if self.a.no_stack:
            return 0
        self.pyid += 1
        self.evidx += 1
        mod = "" if module_id is None else f'"Python module id": {module_id}, '
        par = "null" if not pid_parent else pid_parent
        self.w.x("python_function", name, self.pid, tid, start, end - start,
                 f'"Python parent id": {par}, "Python id": {self.pyid}, {mod}"Ev Idx": {self.evidx}')  # fmt: skip
        return self.pyid

    # -- phases of a step -----------------------------------------------------------------
    def forward_op(self, op: Op, module_name: str, layer: int) -> tuple[Op, int, int]:
        tid, t0 = self.main, self.t
        self.seqno += 1
        seq = self.seqno
        self.t += self.jit(6 * US, 0.4)
        starts = []
        for _ in op.chain:
            starts.append(self.t)
            self.t += self.jit(2.4 * US, 0.3)
        self.memory(tid, op.out)
        inner_ext = self.ext + len(op.chain)
        for k in op.fwd_k:
            self.kernel(k, tid, inner_ext)
        for name, start in zip(op.chain, starts, strict=True):
            end = self.t + 1_500 * (len(op.chain) - starts.index(start))
            extra = "" if self.a.no_shapes else op.shape_args
            ext = self.cpu_op(name, tid, start, end, f', "Sequence number": {seq}, "Fwd thread id": 0' + extra)
        assert ext == inner_ext
        self.t += 1_500 * len(op.chain) + 2_000
        self.w.flow("s", seq, self.pid, tid, starts[0], "fwdbwd")
        p = self.py(f"nn.Module: {module_name}", tid, t0, self.t - 200, self.py_parent, layer)
        p = self.py(f"torch/nn/modules/{op.module.lower()}.py(134): forward", tid, t0 + 900, self.t - 600, p)
        self.py(f"<built-in function {op.chain[0].split('::')[1]}>", tid, t0 + 1_800, self.t - 1_200, p)
        return op, seq, starts[0]

    def backward_op(self, op: Op, seq: int) -> None:
        tid, t0 = self.bwd_tid, self.t
        self.t += self.jit(4 * US, 0.4)
        t1 = self.t
        self.w.flow("f", seq, self.pid, tid, t1, "fwdbwd")
        self.t += self.jit(3 * US, 0.4)
        for name, k in op.bwd_k:
            start = self.t
            self.t += self.jit(3.5 * US, 0.3)
            self.kernel(k, tid, self.ext + 1)
            self.t += 1_200
            self.cpu_op(name, tid, start, self.t, "" if self.a.no_shapes else op.shape_args)
            self.t += 600
        sq = f', "Sequence number": {seq}, "Fwd thread id": 1'
        self.cpu_op(op.bwd, tid, t1, self.t, sq)
        self.t += 700
        if self.live and not self.a.no_memory:
            self.memory(tid, -1)
        self.cpu_op(f"autograd::engine::evaluate_function: {op.bwd}", tid, t0, self.t, sq)
        self.t += 400

    def launch_collective(self, nelems: int) -> dict:
        """CPU side of an all-reduce; the GPU side is filled in once every rank's start is known."""
        tid, t0 = self.bwd_tid, self.t
        self.coll_seq += 1
        ready = self.free[COMPUTE_STREAM]  # it waits for the gradients
        self.t += 9_000
        rec_start = self.t
        self.t += 5_000
        ext_rec = self.ext + 1
        self.runtime("cudaEventRecord", tid, self.t, 1_400, ext_rec, 134)
        self.t += 1_600
        self.runtime("cudaStreamWaitEvent", tid, self.t, 1_200, ext_rec, 147)
        self.t += 1_500
        corr = self.runtime("cudaLaunchKernelExC", tid, self.t, 7_000, ext_rec, 430, flow=True)
        launched = self.t + 7_000
        self.t += 9_000
        world = self.a.ranks
        coll = (
            f'"Collective name": "allreduce", "In msg nelems": {nelems}, "Out msg nelems": {nelems}, '
            f'"Group size": {world}, "dtype": "BFloat16", '
        )
        ranks = str(list(range(world)))
        pg = f'"Process Group Name": "0", "Process Group Description": "default_pg", "Process Group Ranks": "{ranks}"'
        self.cpu_op("record_param_comms", tid, rec_start, self.t,
                    f', {coll}"In split size": "[]", "Out split size": "[]", "Global rank start": 0, "Global rank stride": 1, {pg}, '
                    f'"Rank": {self.rank}, "Seq": {self.coll_seq}, "Is asynchronized op": true')  # fmt: skip
        self.cpu_op("c10d::allreduce_", tid, t0 + 2_000, self.t + 1_000)
        self.cpu_op("nccl:all_reduce", tid, t0 + 4_000, self.t + 500, cat="user_annotation")
        self.t += 2_000
        return {"ready": max(ready + 1_500, launched + 2_000), "corr": corr, "ext": ext_rec, "nelems": nelems,
                "args": f'{coll.rstrip(", ")}, {pg}, "Seq": {self.coll_seq}'}  # fmt: skip

    def finish_collective(self, c: dict, start: int, end: int) -> None:
        args = (f'"queued": 0, "device": {self.dev}, "context": 1, "stream": {COMM_STREAM}, "correlation": {c["corr"]}, '
                '"registers per thread": 96, "shared memory": 82240, "blocks per SM": 0.181818, "warps per SM": 2.909091, '
                f'"grid": [24, 1, 1], "block": [512, 1, 1], "est. achieved occupancy %": 5, {c["args"]}')  # fmt: skip
        self.gpu("kernel", NCCL, COMM_STREAM, start, end - start, c["corr"], c["ext"], args)
        self.w.x(
            "gpu_user_annotation",
            "nccl:all_reduce",
            self.dev,
            COMM_STREAM,
            start - 1,
            end - start + 2,
            f'"External id": {c["ext"]}',
        )
        self.free[COMM_STREAM] = end

    def step_until_backward(self, step: int) -> None:
        """Data loading, forward and backward of one step (CPU and compute stream)."""
        self.step_start, self.gpu_first = self.t, None
        self.fwd: list[tuple[Op, int, int]] = []
        self.py_parent = 0
        tid = self.main
        if not self.a.no_stack:
            self.pyid += 1
            self.py_parent = self.pyid  # the step's frame, written at its end
        self.t += 3_000
        t0 = self.t
        wait = self.jit(1.2 * MS, 0.5)
        if self.rng.random() < 0.08:
            wait += self.jit(18 * MS, 0.5)  # the loader stalls now and then
        self.t += wait
        self.cpu_op(
            "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", tid, t0, self.t, cat="user_annotation"
        )
        for nbytes in (T * 8, T * 8):
            start = self.t + 3_000
            self.t += 8_000
            self.memcpy("HtoD (Pinned -> Device)", tid, self.ext + 1, nbytes, 22.0)
            self.cpu_op("aten::copy_", tid, start, self.t)
            self.cpu_op("aten::to", tid, start - 2_000, self.t + 500)
            self.t += 1_500
        self.sync(tid, None)
        fwd0 = self.t
        for layer in range(self.a.layers):
            for i, op in enumerate(LAYER):
                self.fwd.append((*self.forward_op(op, f"{op.module}_{layer * 4 + i // 3}", layer), layer))
        for op in HEAD:
            self.fwd.append((*self.forward_op(op, f"{op.module}_{self.a.layers * 4}", 999), self.a.layers))
        self.cpu_op("DistributedDataParallel.forward", tid, fwd0, self.t, cat="user_annotation")
        self.t += 40_000
        self.colls: list[dict] = []
        self.bwd0 = self.t
        bucket_layers, pending = max(1, self.a.layers // 6), 0
        for i in range(len(self.fwd) - 1, -1, -1):
            op, seq, _, layer = self.fwd[i]
            self.backward_op(op, seq)
            if i == 0 or self.fwd[i - 1][3] != layer:
                pending += V * H if layer == self.a.layers else 12 * H * H
                if layer == 0 or layer % bucket_layers == 0:
                    self.colls.append(self.launch_collective(pending))
                    pending = 0
        self.t += 30_000
        p = self.py("torch/_tensor.py(573): backward", tid, self.bwd0 - 8_000, self.t, self.py_parent)
        self.py("torch/autograd/graph.py(824): _engine_run_backward", tid, self.bwd0 - 6_000, self.t - 500, p)

    def step_finish(self, step: int) -> None:
        """Optimizer, loss.item() and the end of a step; collectives are finished by now."""
        tid = self.main
        self.free[COMPUTE_STREAM] = max(self.free[COMPUTE_STREAM], self.free[COMM_STREAM] + 2_000)
        corr = self.runtime("cudaStreamWaitEvent", tid, self.t, 1_200, None, 147)
        if self.a.cuda_sync:
            self.w.x("cuda_sync", "Stream Wait Event", self.dev, COMPUTE_STREAM, self.t, 1_200,
                     f'"cuda_sync_kind": "Stream Wait Event", "wait_on_stream": {COMM_STREAM}, "wait_on_cuda_event_record_corr_id": {corr - 1}, '
                     f'"wait_on_cuda_event_id": 9, "stream": {COMPUTE_STREAM}, "correlation": {corr}, "device": {self.dev}, "context": 1')  # fmt: skip
        self.sync(tid, None)  # clip_grad_norm_ reads the norm back, so the optimizer is launch-bound
        self.t += 8_000
        opt0 = self.t
        for _ in range(max(2, self.a.layers // 2)):
            for name, k in OPT:
                start = self.t
                self.t += self.jit(11 * US, 0.3)
                self.kernel(k, tid, self.ext + 1)
                self.t += 2_000
                self.cpu_op(name, tid, start, self.t)
                self.t += 1_500
        self.cpu_op("Optimizer.step#AdamW.step", tid, opt0 - 5_000, self.t, cat="user_annotation")
        start = self.t + 20_000
        self.t = start + 4_000
        e = self.ext + 1
        self.memcpy("DtoH (Device -> Pinned)", tid, e, 4, 0.01)
        self.sync(tid, e)
        self.cpu_op("aten::_local_scalar_dense", tid, start + 1_000, self.t + 500)
        self.cpu_op("aten::item", tid, start, self.t + 1_000)
        self.t += 25_000
        ext = self.cpu_op(f"ProfilerStep#{step}", tid, self.step_start, self.t, cat="user_annotation")
        g0, g1 = self.compute_iv[0][0], max(self.free.values())
        self.w.x(
            "gpu_user_annotation",
            f"ProfilerStep#{step}",
            self.dev,
            COMPUTE_STREAM,
            g0 - 1,
            g1 - g0 + 2,
            f'"External id": {ext}',
        )
        if not self.a.no_stack:
            self.evidx += 1
            self.w.x("python_function", "train.py(88): train_step", self.pid, tid, self.step_start + 1_000, self.t - self.step_start - 1_500,
                     f'"Python parent id": null, "Python id": {self.py_parent}, "Ev Idx": {self.evidx}')  # fmt: skip
        self.t += 60_000
        # ground truth of the step: each stream's intervals are disjoint and sorted
        i = j = 0
        a, b = self.compute_iv, self.comm_iv
        while i < len(a) and j < len(b):
            lo, hi = max(a[i][0], b[j][0]), min(a[i][1], b[j][1])
            if hi > lo:
                self.overlap += hi - lo
            if a[i][1] < b[j][1]:
                i += 1
            else:
                j += 1
        self.comm_busy += sum(e - s for s, e in b)
        self.compute_iv, self.comm_iv = [], []

    def start_file(self) -> None:
        self.w.header(self.rank, self.a.ranks, "NVIDIA H100 80GB HBM3")
        w = self.w
        for pid, name, label, sort in (
            (self.pid, "python3", "CPU", self.pid),
            (self.dev, "python3", f"GPU {self.dev}", 5_000_000 + self.dev),
        ):
            w.meta("process_name", pid, 0, "name", f'"{name}"')
            w.meta("process_labels", pid, 0, "labels", f'"{label}"')
            w.meta("process_sort_index", pid, 0, "sort_index", str(sort))
        for tid, name in ((self.main, "python3"), (self.bwd_tid, "pt_autograd_0")):
            w.meta("thread_name", self.pid, tid, "name", f'"thread {tid} ({name})"')
            w.meta("thread_sort_index", self.pid, tid, "sort_index", str(tid))
        for stream in (COMPUTE_STREAM, COMM_STREAM):
            w.meta("thread_name", self.dev, stream, "name", f'"stream {stream}"')
            w.meta("thread_sort_index", self.dev, stream, "sort_index", str(stream))

    def end_file(self, path: str) -> None:
        self.w.x(
            "Trace", "PyTorch Profiler (0)", '"Spans"', '"PyTorch Profiler"', T0_NS, self.t - T0_NS, '"Op count": 0'
        )
        self.w.meta("process_sort_index", '"Spans"', 0, "sort_index", "536870912")
        self.w.footer(self.t + 100_000, path)

    def truth(self, steps: int) -> dict:
        return {
            "rank": self.rank, "steps": steps, "events": sum(self.w.counts.values()), "by_ph_cat": dict(sorted(self.w.counts.items())),
            "gpu_launches": self.launches, "busy_ns_by_stream": {str(k): v for k, v in self.busy.items()},
            "comm_ns": self.comm_busy, "comm_compute_overlap_ns": self.overlap, "collectives": self.coll_seq,
            "clock_offset_ns": self.w.clock_offset, "waited_ns": self.waited, "caused_wait_ns": self.caused,
        }  # fmt: skip


def generate(args: argparse.Namespace) -> None:
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    ranks = [Rank(r, args) for r in range(args.ranks)]
    suffix = ".json.gz" if args.gzip else ".json"
    paths = [out / f"rank_{r}{suffix}" for r in range(args.ranks)]
    files = [
        gzip.GzipFile(p, "wb", compresslevel=args.gzip_level, mtime=0) if args.gzip else open(p, "wb") for p in paths
    ]
    target, written, step = args.size_mb * 1_000_000, 0, 0
    for r, f in zip(ranks, files, strict=True):
        r.start_file()
        f.write(r.w.drain().encode())
    while step < args.min_steps or written < target:
        step += 1
        for r in ranks:
            r.step_until_backward(step)
        for k in range(len(ranks[0].colls)):  # couple the ranks
            starts = [max(r.colls[k]["ready"], r.free[COMM_STREAM] + 1_000) for r in ranks]
            nbytes = 2 * ranks[0].colls[k]["nelems"]
            end = max(starts) + 20_000 + int(nbytes / args.bus_gbps)
            waits = [max(starts) - s for s in starts]
            for r, wait in zip(ranks, waits, strict=True):
                r.waited += wait
            ranks[starts.index(max(starts))].caused += sum(waits)
            for r, s in zip(ranks, starts, strict=True):
                r.finish_collective(r.colls[k], s, end)
        for r, f in zip(ranks, files, strict=True):
            r.step_finish(step)
            data = r.w.drain().encode()
            f.write(data)
            if r.rank == 0:
                written += len(data)
    for r, f, p in zip(ranks, files, paths, strict=True):
        r.end_file(str(p.name))
        f.write(r.w.drain().encode())
        f.close()
    truth = {"args": {k: v for k, v in vars(args).items() if k != "out"}, "ranks": [r.truth(step) for r in ranks]}
    (out / "truth.json").write_text(json.dumps(truth, indent=1) + "\n")
    for p, r in zip(paths, ranks, strict=True):
        print(f"{p}  {p.stat().st_size / 1e6:.1f} MB  {sum(r.w.counts.values()):,} events  {step} steps")


def main() -> None:
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument(
        "--size-mb", type=float, default=20, help="size of each rank's JSON before compression, in MB of 10^6 bytes"
    )
    ap.add_argument("--ranks", type=int, default=1)
    ap.add_argument("--out", required=True, help="folder to write to")
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--layout", choices=("current", "classic", "compact"), default="current")
    ap.add_argument("--layers", type=int, default=0, help="transformer layers; 0: by size")
    ap.add_argument("--min-steps", type=int, default=2)
    ap.add_argument("--gzip", action="store_true")
    ap.add_argument("--gzip-level", type=int, default=6)
    ap.add_argument("--no-stack", action="store_true", help="no python_function events")
    ap.add_argument("--no-shapes", action="store_true", help="no Input Dims and the like")
    ap.add_argument("--no-memory", action="store_true", help="no [memory] events")
    ap.add_argument("--cuda-sync", action="store_true", help="also cuda_sync events")
    ap.add_argument("--slow-rank", type=int, default=-1, help="a rank whose kernels take --slow-factor times as long")
    ap.add_argument("--slow-factor", type=float, default=1.25)
    ap.add_argument(
        "--clock-skew-us", type=int, default=0, help="random clock offset of each rank, up to this, either way"
    )
    ap.add_argument("--bus-gbps", type=float, default=60.0, help="all-reduce algorithm bandwidth, GB/s")
    args = ap.parse_args()
    args.layers = args.layers or (24 if args.size_mb >= 100 else 8 if args.size_mb >= 15 else 2)
    generate(args)


if __name__ == "__main__":
    main()
