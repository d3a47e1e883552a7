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

TABLE: Final = """\
/* The data of a figure (data and layout as plotly.js takes them) as the text of a CSV file. */
window.figureTable = (data, layout) => {
  const plain = text =>
    text.replaceAll("<br>", " ").replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");
  const cell = value => {
    const text = typeof value === "string" ? plain(value) : String(value ?? "");
    // What a spreadsheet could take for a formula is text.
    const safe = typeof value === "string" && /^[=+@-]/.test(text) ? `'${text}` : text;
    return `"${safe.replaceAll('"', '""')}"`;
  };
  const title = axis => layout[axis]?.title?.text ?? axis;
  const across = data[0].orientation === "h", along = across ? "y" : "x", value = across ? "x" : "y";
  const rows = () => {
    if (data[0].type === "heatmap") {
      const {x, y, z, colorbar} = data[0];
      const corner = `${title("yaxis")} \\\\ ${title("xaxis")} (values in ${colorbar.title.text})`;
      return [[corner, ...x], ...z.map((row, i) => [y[i], ...row])];
    }
    if (data.some(trace => trace.base)) {
      const [time] = title("xaxis").split(" ");
      return [["series", "name", `from, ${title("xaxis")}`, `length (${time})`], ...data.flatMap(trace =>
        Array.from(trace.y, (name, i) => [trace.name, trace.customdata?.[i] ?? name, trace.base[i], trace.x[i]]))];
    }
    if (data[0].type === "bar") {
      const names = data[0].customdata ?? data[0][along];
      return [["", ...data.map(trace => `${trace.name} (${title(`${value}axis`)})`)],
        ...Array.from(names, (name, i) => [name, ...data.map(trace => trace[value][i])])];
    }
    const named = data.some(trace => trace.customdata);
    return [["series", title("xaxis"), title("yaxis"), ...(named ? ["name"] : [])], ...data.flatMap(trace =>
      Array.from(trace.x, (x, i) => [trace.name, x, trace.y[i], ...(named ? [trace.customdata?.[i]] : [])]))];
  };
  return rows().map(row => row.map(cell).join(",")).join("\\n") + "\\n";
};
"""

DRAW: Final = f"""\
{TABLE}\
const style = getComputedStyle(document.documentElement);
const ink = style.getPropertyValue("--ink").trim(), line = style.getPropertyValue("--line").trim();
const download = figure => {{
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([window.figureTable(figure.data, figure.layout)], {{type: "text/csv"}}));
  link.download = "figure.csv";
  link.click();
}};
for (const place of document.querySelectorAll("div.plot")) {{
  const figure = JSON.parse(place.nextElementSibling.textContent);
  const axis = {{gridcolor: line, zerolinecolor: line}};
  const layout = {{font: {{color: ink, family: "system-ui, sans-serif", size: 13}}, paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)", margin: {{l: 60, r: 20, t: 30, b: 50}},
    legend: {{orientation: "h", x: 0, y: 1, yanchor: "bottom", traceorder: "normal"}},
    ...figure.layout, xaxis: {{...axis, ...figure.layout.xaxis}}, yaxis: {{...axis, ...figure.layout.yaxis}}}};
  const save = (format, plot) => Plotly.downloadImage(plot,
    {{format, filename: "figure", width: plot.clientWidth, height: plot.clientHeight}});
  Plotly.newPlot(place, figure.data, layout, {{responsive: true, displaylogo: false,
    modeBarButtonsToRemove: ["toImage"],
    modeBarButtonsToAdd: [
      ...["png", "svg"].map((format, n) => ({{name: format, title: `Download the picture as ${{format.toUpperCase()}}`,
        icon: n ? Plotly.Icons.pencil : Plotly.Icons.camera, click: plot => save(format, plot)}})),
      {{name: "csv", title: "Download the data as CSV", icon: Plotly.Icons.disk, click: () => download(figure)}}]}});
}}
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
