"""What process groups are for: data, tensor, pipeline parallelism and so on, where the files tell."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

Role = Literal["data", "sharded_data", "tensor", "pipeline", "expert", "context", "unknown"]

_DESCRIPTIONS: tuple[tuple[str, Role], ...] = (
    (r"(?:^|[_-])(?:pp|pipe(?:line)?)(?:[_-]|$)|pipeline", "pipeline"),
    (r"(?:^|[_-])(?:ep|moe)(?:[_-]|$)|expert", "expert"),
    (r"(?:^|[_-])(?:cp|sp)(?:[_-]|$)|context|sequence", "context"),
    (r"(?:^|[_-])tp(?:[_-]|$)|tensor", "tensor"),
    (r"fsdp|shard|hsdp", "sharded_data"),
    (r"(?:^|[_-])(?:dp|ddp)(?:[_-]|$)|data|replicate", "data"),
)
"""What descriptions (torch's device meshes: ``mesh_tp``; Megatron: ``TENSOR_MODEL_PARALLEL_GROUP``) stand for."""

_POINT_TO_POINT = {"send", "recv", "send_recv"}


class GroupRow(Struct, frozen=True, kw_only=True):
    """A process group: its ranks (null: no file names them), its role, and ``basis``, what the role was told from.

    ``stride`` is the distance of neighbouring ranks, null where it is not the same throughout.
    """

    name: str | None
    description: str | None
    ranks: tuple[int, ...] | None
    stride: int | None
    role: Role
    basis: str | None
    kinds: tuple[str, ...]
    num_collectives: int


def role_of(
    description: str | None, kinds: Collection[str], point_to_point: bool, uses_ddp: bool, uses_fsdp: bool
) -> tuple[Role, str | None]:
    """The role of a group and what it was told from; ``unknown`` where that is not clear.

    A description that names a kind of parallelism decides; then only sends and receives with known peers make a
    pipeline, all-reduces alone in a job that shows DistributedDataParallel data parallelism, and all-gathers
    with reduce-scatters in a job that shows FSDP sharded data parallelism.
    """
    text = (description or "").lower()
    if text and text not in ("undefined", "default_pg"):
        for pattern, role in _DESCRIPTIONS:
            if re.search(pattern, text):
                return role, "description"
    found = set(kinds)
    if point_to_point and found <= _POINT_TO_POINT:
        return "pipeline", "only sends and receives"
    if uses_fsdp and not uses_ddp and {"all_gather", "reduce_scatter"} <= found <= _FSDP_KINDS:
        return "sharded_data", "all-gathers and reduce-scatters, and FSDP's marks"
    if uses_ddp and not uses_fsdp and "all_reduce" in found and found <= {"all_reduce", "broadcast"}:
        return "data", "all-reduces, and DistributedDataParallel's marks"
    return "unknown", None


_FSDP_KINDS = {"all_gather", "reduce_scatter", "all_reduce", "broadcast"}


def stride_of(ranks: Sequence[int] | None) -> int | None:
    """The distance of neighbouring ranks of a group; null without ranks, or where it varies."""
    if ranks is None or len(ranks) < 2:
        return None
    steps = {b - a for a, b in pairwise(ranks)}
    return steps.pop() if len(steps) == 1 else None
