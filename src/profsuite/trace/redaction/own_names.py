"""The names of this machine and of its user: recordings are mostly redacted where they were made."""

from __future__ import annotations

import getpass
import socket


def this_machine() -> tuple[str, str]:
    """Host and user; "" for what is not known."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):
        user = ""
    return socket.gethostname(), user
