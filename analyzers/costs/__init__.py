"""What ops cost: FLOPs and bytes from the recorded shapes, one file a family, one registry.

A multiply-add is two FLOPs.  What shapes do not tell is null, never 0.  ``register_cost`` adds formulas.
"""

from profsuite.analyzers.costs import (
    attention,
    convolution,
    copies,
    elementwise,
    embedding,
    flash,
    fused,
    gemm,
    grouped,
    loss,
    normalisation,
    optimizer,
    quantised,
    reduction,
    softmax,
    sparse,
)
from profsuite.analyzers.costs.call import OpCall, Tensor, parse_call
from profsuite.analyzers.costs.registry import (
    MATRIX_KINDS,
    Cost,
    CostFormula,
    cost_of,
    costs,
    find_formula,
    register_cost,
)

FAMILIES = (
    gemm,
    grouped,
    quantised,
    sparse,
    convolution,
    attention,
    flash,
    normalisation,
    elementwise,
    reduction,
    softmax,
    embedding,
    loss,
    optimizer,
    copies,
    fused,
)
"""The modules whose import registers the built-in formulas."""

__all__ = [
    "FAMILIES",
    "MATRIX_KINDS",
    "Cost",
    "CostFormula",
    "OpCall",
    "Tensor",
    "cost_of",
    "costs",
    "find_formula",
    "parse_call",
    "register_cost",
]
