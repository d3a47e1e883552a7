#!/usr/bin/env python3
"""Does the peer find the same in profsuite's Chrome JSON as in the original?  ``check_peer.py TRACE...``.

Prints one line a trace; exit code 1: the two differ somewhere.  Traces that the peer itself cannot load are
left out.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import peer

TASK = Path(__file__).with_name("peer_totals.py")


def totals(python: Path, path: Path) -> dict[str, object] | None:
    """What the peer finds in a file, None where it fails."""
    done = subprocess.run([str(python), str(TASK), str(path.resolve())], capture_output=True, text=True)
    if done.returncode:
        return None
    found: dict[str, object] = json.loads(done.stdout.rstrip().rpartition("\n")[2])
    return found


def main() -> int:
    from profsuite.exporters.export import export

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("traces", nargs="+", type=Path)
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent.parent / "build" / "bench")
    args = parser.parse_args()
    python = peer.python_of(args.folder.resolve() / "peer")
    differ = 0
    with tempfile.TemporaryDirectory() as folder:
        for path in args.traces:
            expected = totals(python, path)
            if expected is None:
                print(f"{path.name}: the peer cannot load it")
                continue
            found = totals(python, export(path, Path(folder) / f"{path.name.split('.')[0]}.json"))
            differ += found != expected
            print(f"{path.name}: {'the same' if found == expected else 'DIFFERS'}, {expected['num_rows']} rows")
    return bool(differ)


if __name__ == "__main__":
    sys.exit(main())
