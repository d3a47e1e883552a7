"""The peer that profsuite is measured against: traceinsight, the successor of HolisticTraceAnalysis."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

# With pandas 3 this release fails on loading: it writes numbers into a column that is too narrow.
REQUIREMENTS = ("traceinsight==0.6.1", "pandas<3")
TASK = Path(__file__).with_name("peer_task.py")


def python_of(folder: Path) -> Path:
    """The interpreter of the peer's own environment, which is made on first use."""
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    stamp = folder / "installed.txt"
    wanted = "\n".join(REQUIREMENTS)
    if not stamp.is_file() or stamp.read_text("utf-8") != wanted:
        print("installing the peer, once", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", "--without-pip", str(folder)], check=True)
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python)]
        subprocess.run([*pip, "install", "-qq", *REQUIREMENTS], check=True)
        stamp.write_text(wanted, "utf-8")
    return python
