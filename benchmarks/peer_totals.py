"""What traceinsight finds in one trace, as one line of JSON; see check_peer.py."""

from __future__ import annotations

import json
import logging
import sys
import warnings

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)

from hta.trace_analysis import TraceAnalysis  # noqa: E402


def main() -> None:
    analysis = TraceAnalysis(trace_files={0: sys.argv[1]})
    found = {"num_rows": len(analysis.t.get_trace(0))}
    for name in ("get_temporal_breakdown", "get_comm_comp_overlap", "get_gpu_kernel_breakdown"):
        tables = getattr(analysis, name)(visualize=False)
        tables = tables if isinstance(tables, tuple) else (tables,)
        found[name] = [json.loads(table.to_json(orient="records")) for table in tables]
    print()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
