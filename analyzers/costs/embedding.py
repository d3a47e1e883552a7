"""Look-ups: the rows that indices name are read, or added to.

A row that is named twice is read twice at most; no more rows are read than there are.
"""

from __future__ import annotations

from math import prod

from profsuite.analyzers.costs.call import OpCall, Tensor
from profsuite.analyzers.costs.registry import Cost, bytes_of, dtype_name, formula, require


def _look_up(table: Tensor, indices: Tensor, results: int, flops: int = 0) -> Cost:
    # At least one row must come from memory, repeated ones may come from a cache: all that a trace can bound is the
    # result and the indices, and of the rows the smaller of what is asked for and what there is.
    rows = min(results, table.numel)
    read, written, index = bytes_of(rows, table), bytes_of(results, table), indices.nbytes
    return Cost(
        kind="embedding",
        flops=flops,
        bytes_read=None if read is None or index is None else read + index,
        bytes_written=written,
        dtype=dtype_name(table),
    )


@formula("aten::embedding", kind="embedding")
def embedding(call: OpCall) -> Cost:
    """No FLOP; reads indices and as many rows, writes them; (table, indices, ...)."""
    table, indices = call.tensor(0), call.tensor(1)
    require(len(table.shape) == 2)
    return _look_up(table, indices, indices.numel * table.shape[1])


@formula("aten::index_select", kind="embedding", values=True)
def index_select(call: OpCall) -> Cost:
    """As ``embedding`` along any dimension; (input, dimension, index)."""
    x, index = call.tensor(0), call.tensor(2)
    require(bool(x.shape))
    axis = call.ints(1)[0] % len(x.shape)
    others = prod(size for i, size in enumerate(x.shape) if i != axis)
    return _look_up(x, index, others * index.numel)


@formula("aten::gather", kind="embedding")
def gather(call: OpCall) -> Cost:
    """An element an index; (input, dimension, index)."""
    x, index = call.tensor(0), call.tensor(2)
    return _look_up(x, index, index.numel)


@formula("aten::_embedding_bag", "aten::_embedding_bag_forward_only", kind="embedding", values=True)
def embedding_bag(call: OpCall) -> Cost:
    """An addition an element of every row that is looked up; one row a bag is written.

    (table, indices, offsets, scale, mode, sparse, weights, include last offset); the last adds an offset.
    """
    table, indices, offsets = call.tensor(0), call.tensor(1), call.tensor(2)
    require(len(table.shape) == 2)
    asked = indices.numel * table.shape[1]
    bags = max(offsets.numel - call.flag(7), 0)
    cost = _look_up(table, indices, asked, flops=asked)
    more = offsets.nbytes
    return Cost(
        kind="embedding",
        flops=asked,
        bytes_read=None if cost.bytes_read is None or more is None else cost.bytes_read + more,
        bytes_written=bytes_of(bags * table.shape[1], table),
        dtype=cost.dtype,
    )


@formula("aten::embedding_dense_backward", kind="embedding", values=True)
def embedding_backward(call: OpCall) -> Cost:
    """An addition an element of the gradient; writes the table's whole gradient; (grad, indices, rows, ...)."""
    grad, indices, rows = call.tensor(0), call.tensor(1), call.ints(2)[0]
    require(bool(grad.shape) and 0 <= rows < 2**48)
    read, index = grad.nbytes, indices.nbytes
    return Cost(
        kind="embedding",
        flops=grad.numel,
        bytes_read=None if read is None or index is None else read + index,
        bytes_written=bytes_of(rows * grad.shape[-1], grad),
        dtype=dtype_name(grad),
    )


@formula("aten::index_add_", "aten::scatter_add_", kind="embedding")
def add_at(call: OpCall) -> Cost:
    """An addition an element of the source; (self, dimension, index, source): as many elements of self at most."""
    x, index, source = call.tensor(0), call.tensor(2), call.tensor(3)
    touched = min(source.numel, x.numel)
    own, read, at = bytes_of(touched, x), source.nbytes, index.nbytes
    return Cost(
        kind="embedding",
        flops=source.numel,
        bytes_read=None if own is None or read is None or at is None else own + read + at,
        bytes_written=own,
        dtype=dtype_name(x),
    )
