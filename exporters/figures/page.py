"""Figures within one HTML file: plotly.js itself, the figures as JSON, and a few lines that draw them.

The page's content security policy names both scripts by their hash: nothing else runs in it, and nothing is loaded.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from importlib.util import find_spec
from typing import Final

from profsuite.exporters.figures.figure import Figure

HINT: Final = "Interactive figures need plotly: pip install 'profsuite[html]'."

DRAW: Final = """\
const style = getComputedStyle(document.documentElement);
const ink = style.getPropertyValue("--ink").trim(), line = style.getPropertyValue("--line").trim();
const rows = figure => {
  const cell = value => '"' + String(value ?? "").replaceAll('"', '""') + '"';
  const across = figure.data[0].orientation === "h";
  const names = figure.data[0].customdata ?? figure.data[0][across ? "y" : "x"];
  const table = [["", ...figure.data.map(trace => trace.name)],
    ...names.map((name, i) => [name, ...figure.data.map(trace => trace[across ? "x" : "y"][i])])];
  return table.map(row => row.map(cell).join(",")).join("\\n") + "\\n";
};
const download = figure => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([rows(figure)], {type: "text/csv"}));
  link.download = "figure.csv";
  link.click();
};
for (const place of document.querySelectorAll("div.plot")) {
  const figure = JSON.parse(place.nextElementSibling.textContent);
  const axis = {gridcolor: line, zerolinecolor: line};
  const layout = {font: {color: ink, family: "system-ui, sans-serif", size: 13}, paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)", margin: {l: 60, r: 20, t: 30, b: 50}, legend: {orientation: "h", y: 1.12},
    ...figure.layout, xaxis: {...axis, ...figure.layout.xaxis}, yaxis: {...axis, ...figure.layout.yaxis}};
  Plotly.newPlot(place, figure.data, layout, {responsive: true, displaylogo: false,
    toImageButtonOptions: {format: "svg", filename: "figure"},
    modeBarButtonsToAdd: [{name: "csv", title: "Download the data as CSV", icon: Plotly.Icons.disk,
      click: () => download(figure)}]});
}
"""


def is_available() -> bool:
    """Whether plotly.js is at hand."""
    return find_spec("plotly") is not None


@cache
def _library() -> str:
    return files("plotly").joinpath("package_data/plotly.min.js").read_text("utf-8")


def policy() -> str:
    """The content security policy of a page with figures."""
    hashes = " ".join(f"'sha256-{_digest(script)}'" for script in (_library(), DRAW))
    return f"default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:; script-src {hashes}"


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def places(figures: Sequence[Figure]) -> Iterable[str]:
    """The elements where figures will be drawn."""
    for figure in figures:
        spec = json.dumps({"data": figure.data, "layout": figure.layout}, separators=(",", ":"), allow_nan=False)
        # Within a script element only "<" could end it.
        spec = spec.replace("<", "\\u003c")
        title = escape(figure.title, quote=True)
        yield f'<figure class="chart">\n<figcaption>{title}</figcaption>'
        yield f'<div class="plot" role="img" aria-label="{title}" style="height:{figure.height}px"></div>'
        yield f'<script type="application/json">{spec}</script>\n</figure>'


def scripts() -> Iterable[str]:
    """The two scripts, for the end of the page."""
    yield f"<script>{_library()}</script>\n<script>{DRAW}</script>"
