"""How many elements sparse tensors store: from the calls that built them, by the shape of the tensor.

Ops on a sparse tensor are recorded with its shape alone; the call that built it has the shape of its values.  Where
tensors of one shape were built with different numbers of elements, the number is unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.costs.call import UnknownInputError, parse_call

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.trace.model import Trace

BUILDERS = {
    # name: (position of the values, position of the size), of native_functions.yaml
    "aten::_sparse_coo_tensor_with_dims_and_tensors": (4, 2),
    "aten::_sparse_coo_tensor_unsafe": (1, 2),
    "aten::_sparse_csr_tensor_unsafe": (2, 3),
    "aten::_sparse_csc_tensor_unsafe": (2, 3),
    "aten::_sparse_bsr_tensor_unsafe": (2, 3),
    "aten::_sparse_bsc_tensor_unsafe": (2, 3),
    "aten::_sparse_compressed_tensor_unsafe": (2, 3),
    "aten::sparse_compressed_tensor": (2, 3),
    "aten::sparse_coo_tensor": (1, 2),
    "aten::sparse_csr_tensor": (2, 3),
    "aten::sparse_csc_tensor": (2, 3),
    "aten::sparse_bsr_tensor": (2, 3),
    "aten::sparse_bsc_tensor": (2, 3),
}
"""Ops that build a sparse tensor from the tensors of its indices and values."""


def stored_elements(trace: Trace, op_row: NDArray[np.int64]) -> dict[tuple[int, ...], int]:
    """Stored elements by shape; ``op_row`` gives the row of table ``op`` for each slice (-1 without)."""
    words = trace.words("slice", "name")
    codes = {code: BUILDERS[word] for code, word in enumerate(words) if word in BUILDERS}
    if not codes:
        return {}
    wanted = np.zeros(len(words) + 1, bool)
    wanted[list(codes)] = True
    name = trace.array("slice", "name")
    slices = np.flatnonzero(wanted[name] & (op_row >= 0))
    columns = ("input_dims", "input_types", "concrete_inputs")
    texts = [trace.words("op", column) for column in columns]
    arrays = [trace.array("op", column)[op_row[slices]] for column in columns]
    found: dict[tuple[int, ...], set[int]] = {}
    distinct = set(zip(name[slices].tolist(), *(array.tolist() for array in arrays), strict=True))
    for code, *at in distinct:
        if min(at) < 0:
            continue
        dims, types, values = (words_[i] for words_, i in zip(texts, at, strict=True))
        data, size = codes[code]
        try:
            call = parse_call(str(words[code]), dims, types, None, values)
            found.setdefault(call.ints(size), set()).add(call.tensor(data).numel)
        except UnknownInputError:
            continue
    return {shape: numbers.pop() for shape, numbers in found.items() if len(numbers) == 1}
