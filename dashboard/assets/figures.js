/* The buttons below a figure: its picture as PNG or SVG, its data as CSV. */
(() => {
  "use strict";
  const cell = value => `"${String(value ?? "").replaceAll('"', '""')}"`;

  /* One row a point: the names along the axis, then a column a trace; a matrix keeps its form. */
  const rows = data => {
    const first = data[0];
    if (first.type === "heatmap") return [["", ...first.x], ...first.z.map((row, i) => [first.y[i], ...row])];
    const names = data.map(trace => trace.name ?? "");
    if (first.type === "bar") {
      const across = first.orientation === "h";
      const labels = first.customdata ?? first[across ? "y" : "x"];
      return [["", ...names], ...labels.map((label, i) => [label, ...data.map(trace => trace[across ? "x" : "y"][i])])];
    }
    return [["series", "x", "y"], ...data.flatMap(trace => Array.from(trace.x, (x, i) => [trace.name, x, trace.y[i]]))];
  };

  document.addEventListener("click", event => {
    const button = event.target.closest("[data-save]");
    if (!button) return;
    const plot = button.closest("figure").querySelector(".js-plotly-plot");
    if (!plot || !plot.data.length) return;
    const kind = button.dataset.save;
    if (kind !== "csv") {
      window.Plotly.downloadImage(plot, {format: kind, filename: "figure", width: plot.clientWidth, height: plot.clientHeight});
      return;
    }
    const text = rows(plot.data).map(row => row.map(cell).join(",")).join("\n") + "\n";
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], {type: "text/csv"}));
    link.download = "figure.csv";
    link.click();
    URL.revokeObjectURL(link.href);
  });
})();
