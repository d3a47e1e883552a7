"""Operators: how often, how long on the host, and how much device time their launches caused."""

from __future__ import annotations

from msgspec import Struct

from profsuite.analyzers.base import Ns, Pct


class OpRow(Struct, frozen=True, kw_only=True):
    """All calls of one op (or of one op with one set of input shapes).

    ``host_total_ns`` counts a call inside a call of the same name once; ``host_self_ns`` is without what the call
    contains.  Host times are summed over threads.  ``device_total_ns`` is the union of the device work launched
    anywhere inside the calls, ``device_self_ns`` of what no inner op launched; ``device_pct`` is the total's share
    of the device window (summed over devices), ``host_self_pct`` the self time's share of all ops' self time.
    ``input_dims`` is as recorded (JSON), null per name or where shapes were not recorded.
    """

    name: str
    input_dims: str | None
    count: int
    host_total_ns: Ns
    host_self_ns: Ns
    device_total_ns: Ns
    device_self_ns: Ns
    num_kernels: int
    host_self_pct: Pct | None
    device_pct: Pct | None
    device_self_pct: Pct | None


class OpTable(Struct, frozen=True, kw_only=True):
    """The ops that matter most, by device self time where there is device work, else by host self time.

    ``num_ops`` counts distinct names, ``num_calls`` all calls; ``unattributed_device_ns`` is device work (union)
    that no op launched.  ``by_shape`` is the same per name and input shapes, empty where shapes were not recorded.
    """

    num_ops: int
    num_calls: int
    sorted_by: str
    unattributed_device_ns: Ns
    rows: tuple[OpRow, ...]
    by_shape: tuple[OpRow, ...]
