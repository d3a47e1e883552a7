"""The report as an HTML page."""

from __future__ import annotations

from html.parser import HTMLParser

import msgspec
import pytest

from profsuite.analyzers.report import Report
from profsuite.exporters import html
from profsuite.exporters.figures import page as figures

VOID = {"meta", "hr", "br"}


class Page(HTMLParser):
    """Checks that elements nest, and collects their names, attributes and text."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.text = ""
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture
def no_plotly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "is_available", lambda: False)


ALLOWED = {
    "html",
    "head",
    "meta",
    "title",
    "style",
    "body",
    "main",
    "section",
    "article",
    "h1",
    "h2",
    "h3",
    "p",
    "span",
}
ALLOWED |= {
    "strong",
    "code",
    "ul",
    "li",
    "hr",
    "div",
    "figure",
    "figcaption",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
}
ALLOWED |= {"details", "summary"}


@pytest.mark.usefixtures("no_plotly")
def test_hostile_names_are_text(report: Report) -> None:
    hostile = msgspec.structs.replace(report, source='"><img src=x onerror=alert(1)>.json', verdict="<b>&amp;\x1b[0m")
    page = Page(html.render(hostile))
    assert set(page.tags) <= ALLOWED
    assert {name for _, name, _ in page.attributes} <= {
        "lang",
        "charset",
        "http-equiv",
        "content",
        "name",
        "class",
        "scope",
        "style",
    }
    assert "<script>alert(1)</script>" in page.text
    assert '"><img src=x onerror=alert(1)>.json' in page.text
    assert "<b>&amp;\ufffd[0m" in page.text
    assert all(c.isprintable() or c == "\n" for c in html.render(hostile))


@pytest.mark.usefixtures("no_plotly")
def test_is_self_contained(report: Report) -> None:
    text = html.render(report)
    assert "http:" not in text
    assert "https:" not in text
    assert "url(" not in text
    assert "@import" not in text
    assert "default-src 'none'" in text
    assert text.startswith("<!DOCTYPE html>")


@pytest.mark.usefixtures("no_plotly")
def test_tables_are_accessible(report: Report) -> None:
    page = Page(html.render(report))
    assert (
        page.tags.count("table")
        == page.tags.count("figure")
        == page.tags.count("figcaption")
        == page.tags.count("thead")
    )
    assert all(value in ("col", "row") for tag, name, value in page.attributes if name == "scope")
    assert page.tags.count("th") == sum(name == "scope" for tag, name, _ in page.attributes)
    assert ("html", "lang", "en") in page.attributes
    assert page.tags.count("h1") == page.tags.count("main") == 1


def test_dark_and_light() -> None:
    assert "prefers-color-scheme: dark" in html.STYLE


@pytest.mark.usefixtures("no_plotly")
def test_long_names_open_to_the_whole(report: Report) -> None:
    page = Page(html.render(report))
    assert "details" in page.tags
    assert "std::array<char*, 3ul>)" in page.text


@pytest.mark.parametrize("several", [1, 3])
@pytest.mark.usefixtures("no_plotly")
def test_ranks(report: Report, bare: Report, several: int) -> None:
    page = Page(html.render_ranks([report] * several + [bare]))
    assert page.tags.count("h1") == 1
    assert page.text.count("The GPU is idle for 50.0 %") == 2 * several  # in the list of all, and in its report
