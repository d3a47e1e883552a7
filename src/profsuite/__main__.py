"""``python -m profsuite``: the same as the ``profsuite`` program, also where only a module can be started."""

from __future__ import annotations

from profsuite.cli import main

if __name__ == "__main__":
    main()
