"""A trace's columns as arrays."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_a_column_of_an_empty_table_takes_no_pandas():
    sample = Path(__file__).parents[2] / "sample_traces" / "cpu_compiled.json.gz"
    code = (
        "import sys, profsuite\n"
        "trace = profsuite.load(sys.argv[1], cache=False)\n"
        "for column in ('name', 'ts', 'value'):\n"
        "    array = trace.array('counter', column)\n"
        "    print(len(array), array.dtype)\n"
        "print('pandas' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, sample], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:4] == ["0 int32", "0 int64", "0 float64", "False"]
