/* Of the timeline: measures, colours, and how times are written. */
(() => {
  "use strict";

  const ROW = 17, GAP = 6, LABEL = 190, RULER = 26, MINIMAP = 44, LANES_SHOWN = 24, COUNTER = 40;
  // Okabe and Ito's colours, told apart with any colour vision; ink on each is chosen for contrast.
  const COLORS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#8c8c8c"];
  const BY_CATEGORY = {
    kernel: 0, concurrent_kernel: 0, gpu_memcpy: 3, gpu_memset: 3, cpu_op: 2, operator: 2, cuda_runtime: 1,
    cuda_driver: 1, hip_runtime: 1, runtime: 1, user_annotation: 4, gpu_user_annotation: 4, python_function: 7,
    overhead: 5, cuda_sync: 6,
  };
  const THEMES = {
    light: {paper: "#ffffff", panel: "#f5f6f8", ink: "#1c1e21", quiet: "#5b6168", line: "#d9dce0", mark: "#b3261e"},
    dark: {paper: "#16181b", panel: "#1f2226", ink: "#e6e8eb", quiet: "#a2a9b1", line: "#3a3f45", mark: "#ff8a80"},
  };

  const isDark = hex => {
    const value = parseInt(hex.slice(1), 16);
    return 0.299 * (value >> 16) + 0.587 * (value >> 8 & 255) + 0.114 * (value & 255) < 140;
  };
  const INK = COLORS.map(color => isDark(color) ? "#ffffff" : "#000000");

  const hash = text => {
    let value = 2166136261;
    for (let i = 0; i < text.length; i++) value = Math.imul(value ^ text.charCodeAt(i), 16777619);
    return value >>> 0;
  };

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

  const element = (tag, attributes = {}, ...children) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value);
    }
    made.append(...children);
    return made;
  };

  /* The colour of a slice: by its category, or by its name where that is unknown; collectives stand out. */
  const colorOf = (category, name) => {
    const known = BY_CATEGORY[(category || "").toLowerCase()];
    if (known === 0 && /nccl|rccl|hccl|all_?reduce|multimem/i.test(name)) return 5;
    return known === undefined ? hash(name) % COLORS.length : known;
  };

  window.profsuiteTimeline = {COLORS, COUNTER, GAP, INK, LABEL, LANES_SHOWN, MINIMAP, ROW, RULER, THEMES, colorOf,
    duration, element, short};
})();
