"""The server: waitress on one address, its token, the browser that is opened."""

from __future__ import annotations

import os
import secrets
import socket
import webbrowser
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from waitress.server import create_server

from profsuite.dashboard.addresses import is_loopback
from profsuite.dashboard.catalog import Catalog
from profsuite.dashboard.store import Store
from profsuite.errors import ProfsuiteError

for _package in ("dash", "dash_ag_grid", "plotly"):
    if find_spec(_package) is None:
        raise ModuleNotFoundError(f"No module named {_package!r}", name=_package)

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
    catalog, store = Catalog(roots), Store()
    listening = _listen(host, port)
    # The trace is read, the browser starts, and the pages' packages are imported, all at once.
    first = catalog.ordered()[0]
    if first.kind == "trace":
        store.start(first)
    shown = socket.gethostname() if host in ("0.0.0.0", "::") else host  # noqa: S104 - only compared
    place = f"[{shown}]" if ":" in shown else shown
    address = f"http://{place}:{listening.getsockname()[1]}/" + (f"?token={token}" if token else "")
    say(f"profsuite dashboard: {address} (Ctrl+C ends it)")
    if open_browser:
        webbrowser.open(address)
    with listening:
        server = _server(catalog, store, host, token, listening)
        try:
            server.run()
        finally:
            server.close()


def _listen(host: str, port: int) -> socket.socket:
    """A listening socket: who asks before the server answers is not refused, but waits."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        made = socket.socket(family, socket.SOCK_STREAM)
        try:
            if os.name != "nt":  # where it would let two servers share a port
                made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(address)
            made.listen(1024)
        except BaseException:
            made.close()
            raise
    except OSError as error:
        raise ProfsuiteError(
            f"{host}:{port}: cannot listen there: {error.strerror or error}; choose another --port (0: a free one)"
        ) from error
    return made


def _server(catalog: Catalog, store: Store, host: str, token: str | None, listening: socket.socket) -> Any:
    from profsuite.dashboard.app import application
    from profsuite.dashboard.guard import MOST_UPLOADED, Guard

    names = frozenset() if is_loopback(host) else frozenset({host, socket.gethostname(), socket.getfqdn()})
    return create_server(
        application(catalog, store, Guard(token, names)).server,
        sockets=[listening],
        threads=THREADS,
        ident="profsuite",
        # waitress takes in a whole body before it asks the application.
        max_request_body_size=MOST_UPLOADED + 1,
    )
