"""The definitions that pages link to: docs/analyses.md and docs/health.md as one page at ``/definitions``."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from flask import Blueprint, Response

if TYPE_CHECKING:
    from markdown_it.token import Token

FILES: Final = ("analyses.md", "health.md")
# An installed package has copies beside this file (setup.py), a checkout the originals.
FOLDERS: Final = (Path(__file__).with_name("definitions"), Path(__file__).resolve().parents[1] / "docs")

PAGE: Final = """\
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Definitions: profsuite</title><link rel="stylesheet" href="/assets/dashboard.css">
<script src="/assets/theme.js"></script></head><body><main class="definitions">
{}</main></body></html>
"""


def slug(title: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


@cache
def page() -> str:
    """The page as HTML; it holds nothing of any trace."""
    from markdown_it import MarkdownIt

    folder = next(folder for folder in FOLDERS if (folder / FILES[0]).is_file())
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    texts = []
    for file in FILES:
        tokens = markdown.parse((folder / file).read_text("utf-8"))
        _anchors(tokens)
        texts.append(markdown.renderer.render(tokens, markdown.options, {}))
    return PAGE.format("".join(texts))


def _anchors(tokens: list[Token]) -> None:
    """Give headings an id; links to other documents, which are not here, become their text."""
    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        if token.type == "heading_open" and following is not None:
            token.attrSet("id", slug(following.content))
        kept: list[Token] = []
        leads = True
        for child in token.children or ():
            if child.type == "link_open":
                leads = str(child.attrGet("href") or "").startswith(("#", "https://"))
            if leads or child.type not in ("link_open", "link_close"):
                kept.append(child)
        if token.children is not None:
            token.children = kept


def blueprint() -> Blueprint:
    """The route."""
    routes = Blueprint("definitions", __name__)

    @routes.get("/definitions")
    def definitions() -> Response:
        return Response(page(), mimetype="text/html")

    return routes
