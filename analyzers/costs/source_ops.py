"""The ops that Inductor names a generated kernel after, and what they compute at least.

The name lists every aten op that went into the kernel, in alphabetical order, each once however often it was fused
(torch._inductor.utils.get_fused_kernel_name, ``original_aten``).  So it bounds the FLOPs from below: one for each
elementwise op an element, and in a reduction, where nothing tells on which side of it an op is, one a row.
"""

from __future__ import annotations

import re
from math import prod

from profsuite.analyzers.costs.call import OpCall
from profsuite.analyzers.costs.elementwise import FLOPS_PER_RESULT

NAME = re.compile(r"^triton_(?P<kind>poi|red|per)_fused_(?P<ops>\w+)_\d+$")

_MOVES = """
_reshape_alias _to_copy _unsafe_view alias arange clone contiguous convert_element_type copy copy_ detach empty
empty_like expand fill flatten full full_like iota lift_fresh_copy new_empty new_full new_ones new_zeros ones ones_like
permute reshape scalar_tensor squeeze t transpose unflatten unsqueeze view view_as zeros zeros_like
"""
"""Ops that compute nothing and keep the number of elements."""

_REDUCTIONS = "all amax amin any argmax argmin max mean min prod sum"
_SPLIT = """
_fused_rms_norm _fused_rms_norm_backward _log_softmax _log_softmax_backward_data _native_batch_norm_legit
_native_batch_norm_legit_functional _softmax _softmax_backward_data native_batch_norm native_batch_norm_backward
native_group_norm native_group_norm_backward native_layer_norm native_layer_norm_backward var var_mean
"""
"""Ops that may be split over several kernels: which part of them this one does, the name does not say."""

OPS: dict[str, int] = {
    **dict.fromkeys(f"{_MOVES} {_REDUCTIONS} {_SPLIT}".split(), 0),
    **{name: min(flops, 1) for name, flops in FLOPS_PER_RESULT.items()},
}
"""FLOPs of an element that an op computes at least, in whichever kernel a part of it is."""

_LONGEST = max(map(len, OPS))


def source_ops(joined: str) -> list[str] | None:
    """The ops of names joined by underscores, longest names first; None where one is not known."""
    found, at = list[str](), 0
    while at < len(joined):
        ends = range(min(len(joined), at + _LONGEST), at, -1)
        end = next((e for e in ends if joined[e : e + 1] in ("", "_") and joined[at:e] in OPS), None)
        if end is None:
            return None
        found.append(joined[at:end])
        at = end + 1
    return found


def least_flops(call: OpCall) -> int | None:
    """FLOPs that a generated kernel takes at least; None where its name or its sizes do not tell.

    A pointwise kernel gets its number of elements last (tiled ones two factors of it), a reduction the number of rows
    and of elements in each: taken where one of its tensors has as many elements.  A reduction takes one operation an
    element besides.
    """
    match = NAME.match(call.name)
    ops = source_ops(match["ops"]) if match is not None and len(call.name) <= 4096 else None
    if match is None or ops is None:
        return None
    flops = sum(OPS[op] for op in ops)
    sizes = {tensor.numel for tensor in call.every_tensor}
    numbers = [int(v) for kind, v in zip(call.types, call.values, strict=False) if kind == "Scalar" and v.isdecimal()]
    if match["kind"] == "poi":
        numel = next((prod(numbers[-n:]) for n in (1, 2) if prod(numbers[-n:]) in sizes and len(numbers) >= n), None)
        return None if numel is None else numel * flops
    if len(numbers) < 2 or numbers[-2] * numbers[-1] not in sizes:
        return None
    rows, each = numbers[-2:]
    return rows * each + rows * flops
