"""The user's cache folder; a module of its own, since those who only build something there need no Arrow."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """Where cached traces lie: $PROFSUITE_CACHE, else profsuite/traces in the user's cache folder."""
    if chosen := os.environ.get("PROFSUITE_CACHE"):
        return Path(chosen)
    if base := os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA"):
        return Path(base) / "profsuite" / "traces"
    return Path.home() / ".cache" / "profsuite" / "traces"
