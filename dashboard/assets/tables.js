/* What tables have beyond ag-grid's own: histograms in cells, the choice of columns, cells of CSV files.
 *
 * window.profsuite_dashboard.Columns (id, grid, name, columns of {field, label}) shows and hides columns of the grid of
 * that id; the choice is kept in this browser, by the table's name.  Until one is made, those of ``hidden`` are hidden.  The cells of column Histogram are texts such as
 * "1200..56789 ns: 3 0 5": what exporters and the clipboard get, drawn as bars.
 */
(() => {
  "use strict";
  const create = (...parts) => window.React.createElement(...parts);

  const duration = ns => {
    const [unit, name] = ns >= 1e9 ? [1e9, "s"] : ns >= 1e6 ? [1e6, "ms"] : ns >= 1e3 ? [1e3, "µs"] : [1, "ns"];
    return `${Number((ns / unit).toPrecision(3)).toLocaleString("en")} ${name}`;
  };

  /* One bar a bin, its height by the count's share of the highest; a bin that holds anything is seen. */
  const WIDTH = 96, HEIGHT = 20;
  function Histogram({value}) {
    const found = /^(\d+)\.\.(\d+) ns: ([\d ]+)$/.exec(value ?? "");
    if (!found) return null;
    const low = Number(found[1]), high = Number(found[2]), counts = found[3].split(" ").map(Number);
    const most = Math.max(...counts), bin = counts.indexOf(most), first = Math.max(low, 1);
    const edge = n => first * (Math.max(high, 1) / first) ** (n / counts.length);
    const said = counts.length === 1
      ? `all ${most.toLocaleString("en")} take ${duration(low)}`
      : `from ${duration(low)} to ${duration(high)}; most (${most.toLocaleString("en")}) take ${duration(edge(bin))} to ${duration(edge(bin + 1))}`;
    const width = WIDTH / counts.length;
    const bars = counts.map((count, n) => count === 0 ? null : create("rect", {
      key: n, x: n * width + 0.5, width: width - 1,
      height: Math.max(1.5, HEIGHT * count / most), y: HEIGHT - Math.max(1.5, HEIGHT * count / most)}));
    return create("svg", {className: "histogram", role: "img", "aria-label": said, width: WIDTH, height: HEIGHT,
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`}, create("title", null, said), ...bars);
  }
  /* A cell of a CSV file: numbers exact, and text that a spreadsheet would compute with a ' before it. */
  const FORMULA = /^[=+\-@\t\r]/, NUMBER = /^[+-]?\d+(\.\d+)?(e[+-]?\d+)?$/i;
  const csvCell = ({value}) => value === null || value === undefined ? ""
    : typeof value === "string" && FORMULA.test(value) && !NUMBER.test(value) ? `'${value}` : value;
  window.dashAgGridFunctions = Object.assign(window.dashAgGridFunctions || {}, {csvCell});

  window.dashAgGridComponentFunctions = Object.assign(window.dashAgGridComponentFunctions || {}, {Histogram});

  const kept = name => {
    try { return JSON.parse(localStorage.getItem(`profsuite-hidden-${name}`)); } catch { return null; }
  };
  const keep = (name, hidden) => {
    try { localStorage.setItem(`profsuite-hidden-${name}`, JSON.stringify([...hidden])); } catch { /* not kept */ }
  };

  function Columns(props) {
    const {useState, useEffect} = window.React;
    const [hidden, setHidden] = useState(() => new Set(kept(props.name) ?? props.hidden));
    const fields = props.columns.map(column => column.field);
    const apply = off => {
      const shown = fields.filter(field => !off.has(field));
      window.dash_ag_grid.getApiAsync(props.grid).then(api => {
        api.setColumnsVisible(fields.filter(field => off.has(field)), false);
        api.setColumnsVisible(shown, true);
        api.sizeColumnsToFit();
      }).catch(() => { /* the page was left */ });
    };
    useEffect(() => { if (kept(props.name) !== null) apply(hidden); }, []);
    const change = (field, on) => {
      const off = new Set(hidden);
      if (on) off.delete(field); else off.add(field);
      if (off.size >= fields.length) return;  // one stays
      setHidden(off);
      keep(props.name, off);
      apply(off);
    };
    return create("details", {className: "columns"},
      create("summary", null, hidden.size ? `Columns (${hidden.size} hidden)` : "Columns"),
      create("div", {role: "group", "aria-label": "Columns shown"}, ...props.columns.map(({field, label}) =>
        create("label", {key: field},
          create("input", {type: "checkbox", checked: !hidden.has(field), "data-column": field,
            onChange: event => change(field, event.target.checked)}),
          label))));
  }
  window.profsuite_dashboard = Object.assign(window.profsuite_dashboard || {}, {Columns});
})();
