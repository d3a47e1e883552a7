"""Products with sparse matrices: FLOPs by the stored elements, where the trace has their number."""

from __future__ import annotations

from profsuite.analyzers.costs.call import OpCall, Tensor
from profsuite.analyzers.costs.registry import Cost, bytes_of, dtype_name, formula, require, total_bytes


def sparse_product(a: Tensor, b: Tensor, *more: Tensor | None) -> Cost:
    """m x k by k x n with one sparse factor of nnz stored elements: 2 nnz n (or 2 nnz m) FLOPs.

    Bytes: values and indices (of 8 bytes: torch's int64) of the sparse factor; two indices an element for COO, one
    and a row pointer for CSR; unknown for blocks, for two sparse factors, and where nnz is unknown.
    """
    m, n = a.shape[0], b.shape[1]
    sparse, other, columns = (a, b, n) if a.is_sparse else (b, a, m)
    dtype = dtype_name(other)
    if sparse.nnz is None or other.is_sparse:
        return Cost(kind="sparse gemm", dtype=dtype)
    read = total_bytes((other, *more))
    stored = _stored_bytes(sparse)
    return Cost(
        kind="sparse gemm",
        flops=2 * sparse.nnz * columns,
        bytes_read=None if read is None or stored is None else read + stored,
        bytes_written=bytes_of(m * n, other),
        dtype=dtype,
    )


def _stored_bytes(sparse: Tensor) -> int | None:
    if sparse.nnz is None or sparse.dtype is None:
        return None
    values = sparse.nnz * sparse.dtype.num_bytes
    if sparse.layout == "sparse_coo":
        return values + 2 * 8 * sparse.nnz
    if sparse.layout in ("sparse_csr", "sparse_csc"):
        pointers = sparse.shape[0 if sparse.layout == "sparse_csr" else 1] + 1
        return values + 8 * (sparse.nnz + pointers)
    return None


@formula("aten::_sparse_mm", "aten::_sparse_sparse_matmul", kind="sparse gemm", composite=True)
def sparse_mm(call: OpCall) -> Cost:
    """torch.sparse.mm: by the stored elements of the sparse factor (cusparseSpMM does nnz x n multiply-adds)."""
    return _product(call.tensor(0), call.tensor(1))


@formula("aten::_sparse_addmm", "aten::s_addmm", kind="sparse gemm", composite=True)
def sparse_addmm(call: OpCall) -> Cost:
    """As ``_sparse_mm``; reads what is added too."""
    return _product(call.tensor(1), call.tensor(2), call.tensor(0))


def _product(a: Tensor, b: Tensor, *more: Tensor | None) -> Cost:
    require(len(a.shape) == len(b.shape) == 2 and a.shape[1] == b.shape[0])
    if not a.is_sparse and not b.is_sparse:
        return Cost(kind="sparse gemm", dtype=dtype_name(a))
    return sparse_product(a, b, *more)


@formula("aten::sparse_sampled_addmm", kind="sparse gemm")
def sampled_addmm(call: OpCall) -> Cost:
    """The product of m x k by k x n at the nnz places of a sparse matrix: 2 nnz k (cusparseSDDMM)."""
    mask, a, b = call.tensor(0), call.tensor(1), call.tensor(2)
    require(len(a.shape) == len(b.shape) == 2 and a.shape[1] == b.shape[0])
    return Cost(kind="sparse gemm", flops=None if mask.nnz is None else 2 * mask.nnz * a.shape[1], dtype=dtype_name(a))


@formula("aten::_cslt_sparse_mm", kind="sparse gemm")
def cslt_sparse_mm(call: OpCall) -> Cost:
    """2:4 sparse m x k by dense k x n (cuSPARSELt): half of the elements are stored, so m n k.

    The first input is the compressed matrix (torch.sparse.SparseSemiStructuredTensorCUSPARSELT): m rows.
    """
    a, b = call.tensor(0), call.tensor(1)
    require(len(a.shape) == len(b.shape) == 2)
    return _semi_structured(a.shape[0], b.shape[0], b.shape[1], a, b, call.optional(2))


@formula("aten::_sparse_semi_structured_mm", kind="sparse gemm")
def semi_structured_mm(call: OpCall) -> Cost:
    """2:4 sparse m x k, stored as m x k/2 and its metadata, by dense k x n (CUTLASS): m n k."""
    a, meta, b = call.tensor(0), call.tensor(1), call.tensor(2)
    require(len(a.shape) == len(b.shape) == 2 and 2 * a.shape[1] == b.shape[0])
    return _semi_structured(a.shape[0], b.shape[0], b.shape[1], a, b, meta)


@formula("aten::_sparse_semi_structured_addmm", kind="sparse gemm")
def semi_structured_addmm(call: OpCall) -> Cost:
    """As ``_sparse_semi_structured_mm``, after what is added."""
    a, meta, b = call.tensor(1), call.tensor(2), call.tensor(3)
    require(len(a.shape) == len(b.shape) == 2 and 2 * a.shape[1] == b.shape[0])
    return _semi_structured(a.shape[0], b.shape[0], b.shape[1], a, b, meta, call.tensor(0))


@formula("aten::_sparse_semi_structured_linear", kind="sparse gemm")
def semi_structured_linear(call: OpCall) -> Cost:
    """Dense ... x k by the transposed 2:4 sparse weight, stored as n x k/2: m n k."""
    x, weight, meta = call.tensor(0), call.tensor(1), call.tensor(2)
    require(len(weight.shape) == 2 and bool(x.shape) and 2 * weight.shape[1] == x.shape[-1])
    rows = x.numel // x.shape[-1]
    return _semi_structured(rows, x.shape[-1], weight.shape[0], x, weight, meta, call.optional(3))


def _semi_structured(m: int, k: int, n: int, a: Tensor, b: Tensor, *more: Tensor | None) -> Cost:
    return Cost(
        kind="sparse gemm",
        flops=m * n * k,
        bytes_read=total_bytes((a, b, *more)),
        bytes_written=bytes_of(m * n, a),
        dtype=dtype_name(a),
    )
