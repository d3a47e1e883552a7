"""Copies, casts and layout changes: no FLOP, the source read once and the result written once."""

from __future__ import annotations

from math import prod

from profsuite.analyzers.costs.call import OpCall, Tensor
from profsuite.analyzers.costs.registry import Cost, bytes_of, dtype_name, formula, require, total_bytes


def _copy(source: tuple[Tensor, ...], written: int | None) -> Cost:
    require(not any(tensor.is_sparse for tensor in source))
    return Cost(
        kind="copy",
        flops=0,
        bytes_read=total_bytes(source),
        bytes_written=written,
        dtype=dtype_name(*source),
    )


@formula("aten::copy_", kind="copy")
def copy(call: OpCall) -> Cost:
    """Reads the second input, writes the first, in its dtype."""
    target, source = call.tensor(0), call.tensor(1)
    return _copy((source,), bytes_of(target.numel, target))


@formula("aten::_to_copy", kind="copy", values=True)
def to_copy(call: OpCall) -> Cost:
    """Reads the input, writes as many elements in the dtype that is given (its own without)."""
    x = call.tensor(0)
    dtype = call.dtype(1) or x.dtype
    return _copy((x,), None if dtype is None else x.numel * dtype.num_bytes)


@formula("aten::clone", "aten::flip", "aten::roll", kind="copy")
def clone(call: OpCall) -> Cost:
    """Reads the input, writes as much."""
    x = call.tensor(0)
    return _copy((x,), bytes_of(x.numel, x))


@formula("aten::cat", "aten::_cat", kind="copy")
def cat(call: OpCall) -> Cost:
    """Reads every tensor of the list, writes as much."""
    tensors = call.tensors(0)
    require(bool(tensors))
    sizes = [bytes_of(tensor.numel, tensor) for tensor in tensors]
    return _copy(tensors, None if None in sizes else sum(filter(None, sizes)))


@formula("aten::repeat", kind="copy", values=True)
def repeat(call: OpCall) -> Cost:
    """Reads the input, writes it as often as is asked."""
    x, times = call.tensor(0), call.ints(1)
    require(all(0 <= number < 2**48 for number in times))
    return _copy((x,), bytes_of(x.numel * prod(times), x))


@formula("aten::constant_pad_nd", kind="copy", values=True)
def pad(call: OpCall) -> Cost:
    """Reads the input, writes it with its margins, which are given in pairs from the last dimension on."""
    x, margins = call.tensor(0), call.ints(1)
    require(len(margins) % 2 == 0 and len(margins) <= 2 * len(x.shape))
    sizes = list(x.shape)
    for i in range(0, len(margins), 2):
        sizes[-1 - i // 2] += margins[i] + margins[i + 1]
    require(all(size >= 0 for size in sizes))
    return _copy((x,), bytes_of(prod(sizes), x))


@formula("_C_cache_ops::reshape_and_cache", "_C_cache_ops::reshape_and_cache_flash", kind="copy")
def cache_rows(call: OpCall) -> Cost:
    """vLLM's copy of keys and values into the cache, in its dtype; a division an element where that is a narrower one.

    (key, value, key cache, value cache, slots, ...): as many rows as there are slots; one of no slot (-1) counts too.
    """
    key, value, slots = call.tensor(0), call.tensor(1), call.tensor(4)
    require(bool(key.shape) and key.shape[0] == value.shape[0] >= slots.numel and key.shape[0] > 0)
    read = written = quantised = 0
    for x, cache in ((key, call.tensor(2)), (value, call.tensor(3))):
        count = x.numel // x.shape[0] * slots.numel
        source, target = bytes_of(count, x), bytes_of(count, cache)
        if source is None or target is None or slots.nbytes is None:
            return Cost(kind="copy", dtype=dtype_name(key))
        read, written = read + source, written + target
        quantised += count if target < source else 0
    return Cost(
        kind="copy",
        flops=quantised,
        bytes_read=read + (slots.nbytes or 0),
        bytes_written=written,
        dtype=dtype_name(key),
    )
