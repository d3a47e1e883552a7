"""Who may ask the server for what: the token, the host name, the origin, and the policy of what a page may do."""

from __future__ import annotations

import hmac
import ipaddress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from flask import Response, abort, make_response, redirect, request

if TYPE_CHECKING:
    from flask import Flask
    from werkzeug.wrappers import Response as AnyResponse

COOKIE: Final = "profsuite_token"
MOST_UPLOADED: Final = 1 << 20
"""Bytes of a request: pages send a few numbers, never a trace."""


@dataclass(frozen=True, slots=True)
class Guard:
    """The rules of one server.  ``token`` is asked for where it is set; ``hosts`` are the names it answers to.

    On loopback without ``hosts`` only loopback's own names are answered to, so that a page elsewhere cannot reach the
    server through a name of its own (DNS rebinding).
    """

    token: str | None = None
    hosts: frozenset[str] = field(default_factory=frozenset)

    def install(self, server: Flask, script_hashes: list[str]) -> None:
        """Apply the rules to every request of a server."""
        server.config["MAX_CONTENT_LENGTH"] = MOST_UPLOADED
        policy = (
            f"default-src 'none'; script-src 'self' {' '.join(script_hashes)}; style-src 'self' 'unsafe-inline'; "
            "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; base-uri 'none'; "
            "form-action 'none'; frame-ancestors 'none'"
        )

        @server.before_request
        def check() -> AnyResponse | None:
            return self._check()

        @server.after_request
        def protect(response: Response) -> Response:
            response.headers["Content-Security-Policy"] = policy
            response.headers["X-Content-Type-Options"] = "nosniff"
            response.headers["Referrer-Policy"] = "no-referrer"
            response.headers["Cross-Origin-Resource-Policy"] = "same-origin"
            return response

    def _check(self) -> AnyResponse | None:
        if not self._answers_to(request.host):
            abort(403, "this name is not one of this server's")
        origin = request.headers.get("Origin")
        if origin is not None and urlsplit(origin).netloc != request.host:
            abort(403, "a page from elsewhere may not ask this server")
        if (request.content_length or 0) > MOST_UPLOADED:
            abort(413, "pages send no more than a few numbers")
        if self.token is None:
            return None
        given = request.args.get("token")
        if given is not None and hmac.compare_digest(given.encode(), self.token.encode()):
            if request.method != "GET":
                return None
            # Keep it out of the address, where it could be copied along.
            response = make_response(redirect(request.path))
            response.set_cookie(COOKIE, self.token, httponly=True, samesite="Strict")
            return response
        kept = request.cookies.get(COOKIE, "")
        if not hmac.compare_digest(kept.encode(), self.token.encode()):
            abort(401, "this server asks for its token: open the address that it printed")
        return None

    def _answers_to(self, host: str) -> bool:
        name = urlsplit(f"//{host}").hostname or ""
        if name in self.hosts:
            return True
        if name == "localhost":
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        # A browser that was given an address was not led here by a name.
        return bool(self.hosts) or address.is_loopback
