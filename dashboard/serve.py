"""The server: waitress on one address, its token, the browser that is opened."""

from __future__ import annotations

import secrets
import socket
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Final

from waitress.server import create_server

from profsuite.dashboard.app import create
from profsuite.dashboard.guard import MOST_UPLOADED, Guard, is_loopback
from profsuite.errors import ProfsuiteError

THREADS: Final = 16


def serve(
    roots: list[Path],
    host: str,
    port: int,
    token: str | None,
    open_browser: bool,
    say: Callable[[str], object],
) -> None:
    """Serve the traces below ``roots`` until interrupted.  ``ProfsuiteError`` where the address cannot be had."""
    if token is None and not is_loopback(host):
        token = secrets.token_urlsafe(24)
    beyond = not is_loopback(host)
    names = frozenset({host, socket.gethostname(), socket.getfqdn()}) if beyond else frozenset()
    app = create(roots, Guard(token, names), warm=True)
    try:
        server = create_server(
            app.server,
            host=host,
            port=port,
            threads=THREADS,
            ident="profsuite",
            # waitress takes in a whole body before it asks the application.
            max_request_body_size=MOST_UPLOADED + 1,
        )
    except OSError as error:
        raise ProfsuiteError(
            f"{host}:{port}: cannot listen there: {error.strerror or error}; choose another --port (0: a free one)"
        ) from error
    shown = socket.gethostname() if host in ("0.0.0.0", "::") else host  # noqa: S104 - only compared
    place = f"[{shown}]" if ":" in shown else shown
    address = f"http://{place}:{server.effective_port}/" + (f"?token={token}" if token else "")
    say(f"profsuite dashboard: {address} (Ctrl+C ends it)")
    if open_browser:
        webbrowser.open(address)
    try:
        server.run()
    finally:
        server.close()
