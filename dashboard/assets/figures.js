/* The buttons below a figure: its picture as PNG or SVG, its data as CSV (window.figureTable of /figures/table.js). */
(() => {
  "use strict";
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
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([window.figureTable(plot.data, plot.layout)], {type: "text/csv"}));
    link.download = "figure.csv";
    link.click();
    URL.revokeObjectURL(link.href);
  });
})();
