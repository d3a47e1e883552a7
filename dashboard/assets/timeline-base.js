/* Of the timeline: measures, colours, and how times are written. */
(() => {
  "use strict";

  const ROW = 17, GAP = 6, LABEL = 190, MINIMAP = 40, TICKS = 18, STEPS = 16, COUNTER = 40;
  // By kind, in the order of kinds.KINDS.  The first eight are Okabe and Ito's (grey for black), told apart with any
  // colour vision; the ninth is darker than all of them; what is of no known kind has shades of one colour, by its name.
  const COLORS = ["#0072b2", "#d55e00", "#cc79a7", "#f0e442", "#56b4e9", "#8c8c8c", "#009e73", "#e69f00", "#5c4033",
    "#7b61b8", "#a58fd6", "#5e4a94", "#c3b4e6"];
  const OTHER = 9;
  const THEMES = {
    light: {paper: "#ffffff", panel: "#f5f6f8", ink: "#1c1e21", quiet: "#5b6168", line: "#d9dce0", mark: "#b3261e"},
    dark: {paper: "#16181b", panel: "#1f2226", ink: "#e6e8eb", quiet: "#a2a9b1", line: "#3a3f45", mark: "#ff8a80"},
  };

  const isDark = hex => {
    const value = parseInt(hex.slice(1), 16);
    return 0.299 * (value >> 16) + 0.587 * (value >> 8 & 255) + 0.114 * (value & 255) < 140;
  };
  const INK = COLORS.map(color => isDark(color) ? "#ffffff" : "#000000");

  /* A duration with its unit; exact to the ns. */
  const duration = ns => {
    const sign = ns < 0 ? "-" : "", size = Math.abs(ns);
    const [unit, scale, digits] = size >= 1e9 ? ["s", 1e9, 9] : size >= 1e6 ? ["ms", 1e6, 6]
      : size >= 1e3 ? ["µs", 1e3, 3] : ["ns", 1, 0];
    return `${sign}${(size / scale).toFixed(digits).replace(/\.?0+$/, "")} ${unit}`;
  };
  const short = ns => {
    const size = Math.abs(ns);
    const [unit, scale] = size >= 1e9 ? ["s", 1e9] : size >= 1e6 ? ["ms", 1e6] : size >= 1e3 ? ["µs", 1e3] : ["ns", 1];
    return `${+(ns / scale).toPrecision(4)} ${unit}`;
  };

  /* A time to a step, with as many digits as tell it from the next; in the unit that fits the time `of`. */
  const timeAt = (ns, step, of = ns) => {
    const size = Math.abs(of);
    const [unit, scale] = size >= 1e9 ? ["s", 1e9] : size >= 1e6 ? ["ms", 1e6] : size >= 1e3 ? ["µs", 1e3] : ["ns", 1];
    return `${(ns / scale).toFixed(decimals(step / scale))} ${unit}`;
  };
  const decimals = step => Math.min(Math.max(Math.ceil(-Math.log10(step) - 1e-9), 0), 9);

  /* A counter's value; `unit` is the server's, "" where it has none. */
  const quantity = (value, unit) => {
    const size = Math.abs(value);
    const scaled = unit === "" || unit[0] === "B";
    const [prefix, scale] = (scaled && [["T", 1e12], ["G", 1e9], ["M", 1e6], ["k", 1e3]].find(([, most]) => size >= most)) || ["", 1];
    return `${+(value / scale).toPrecision(4)} ${prefix}${unit}`.trim();
  };

  const element = (tag, attributes = {}, ...children) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value);
    }
    made.append(...children);
    return made;
  };

  /* The colour of a slice: by its kind, and shades of one by the name where that is unknown. */
  const colorOf = (kind, name) => kind < OTHER ? kind : OTHER + name % (COLORS.length - OTHER);

  window.profsuiteTimeline = {COLORS, COUNTER, GAP, INK, LABEL, MINIMAP, ROW, STEPS, THEMES, TICKS, colorOf, duration,
    element, quantity, short, timeAt};
})();
