/* The timeline: tracks of nested slices on a canvas, from tiles that the server computes.
 *
 * A Dash component in plain JavaScript: window.profsuite_dashboard.Timeline.  Props: id, trace (its key), start_ns and
 * end_ns (the view, ns since the recording's start; null shows all), selected (a slice's number or null).  It sets
 * start_ns, end_ns and selected as the user moves; everything else stays in here.  assets/theme.js says the theme.
 */
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

  /* One timeline in one element.  `changed({start_ns, end_ns, selected})` hears of every move. */
  class View {
    constructor(root, changed) {
      this.root = root;
      this.changed = changed;
      this.trace = null;
      this.info = null;
      this.start = 0;
      this.end = 1;
      this.selected = null;
      this.range = null; // selected stretch of time
      this.collapsed = new Set();
      this.pinned = new Set();
      this.scroll = 0;
      this.tile = null;
      this.counters = new Map();
      this.hover = null;
      this.found = null;
      this.frame = 0;
      this.asked = 0;
      this.build();
    }

    build() {
      this.canvas = element("canvas", {class: "timeline-canvas", tabindex: "0", role: "application",
        "aria-label": "Timeline. W and S zoom, A and D move, arrow keys scroll, F fits all, slash searches."});
      this.search = element("input", {type: "search", placeholder: "Search names ( / )", "aria-label": "Search names",
        class: "timeline-search"});
      this.matches = element("span", {class: "timeline-matches", "aria-live": "polite"});
      this.where = element("span", {class: "timeline-where", "aria-live": "polite"});
      const button = (label, title, action) => element("button", {type: "button", title, onclick: action}, label);
      this.bar = element("div", {class: "timeline-bar"},
        this.search, button("‹", "Previous match (Shift+Enter)", () => this.next(-1)),
        button("›", "Next match (Enter)", () => this.next(1)), this.matches,
        button("Fit", "Show the whole recording (F)", () => this.fit()), this.where);
      this.detail = element("div", {class: "timeline-detail", "aria-live": "polite"});
      this.tip = element("div", {class: "timeline-tip", hidden: ""});
      this.stage = element("div", {class: "timeline-stage"}, this.canvas, this.tip);
      this.root.append(this.bar, this.stage, this.detail);
      this.listen();
      this.sized = new ResizeObserver(() => this.moved());
      this.sized.observe(this.stage);
      this.themed = () => this.draw();
      window.addEventListener("profsuite-theme", this.themed);
    }

    get theme() { return document.documentElement.dataset.theme === "dark" ? "dark" : "light"; }

    destroy() {
      this.sized.disconnect();
      cancelAnimationFrame(this.frame);
      window.removeEventListener("profsuite-theme", this.themed);
      this.root.replaceChildren();
    }

    api(path, query) {
      return `/api/${this.trace}/${path}?${new URLSearchParams(query)}`;
    }

    async show(trace, start, end, selected) {
      if (trace !== this.trace) {
        this.trace = trace;
        this.info = null;
        this.tile = null;
        this.selected = null;
        this.range = null;
        this.found = null;
        this.draw();
        const answer = await fetch(this.api("tracks", {}));
        if (trace !== this.trace) return;
        if (!answer.ok) {
          this.where.textContent = `The timeline cannot be shown: ${await answer.text()}`;
          return;
        }
        this.info = await answer.json();
        this.collapsed = new Set(this.info.tracks.slice(40).map(track => track.track));
        this.start = 0;
        this.end = Math.max(1, this.info.length_ns);
      }
      if (!this.info) return;
      if (start !== null && start !== undefined && end !== null && end !== undefined && end > start) {
        if (start !== this.start || end !== this.end) [this.start, this.end] = [start, end];
      }
      if (selected !== null && selected !== undefined && selected !== this.selected) this.select(selected, false);
      this.moved(false);
    }

    // ------------------------------------------------------------ layout
    /* The tracks from top to bottom: pinned first.  Each has a y, a height and its lanes. */
    layout() {
      const tracks = [...this.info.tracks];
      tracks.sort((a, b) => this.pinned.has(b.track) - this.pinned.has(a.track));
      let y = RULER + MINIMAP - this.scroll, group = null;
      const rows = [];
      for (const track of tracks) {
        const name = this.pinned.has(track.track) ? "pinned" : track.group;
        const head = name !== group;
        group = name;
        if (head) y += ROW;
        const count = this.collapsed.has(track.track) ? 1 : Math.min(track.lanes.length, LANES_SHOWN);
        rows.push({track, y, head: head ? name : null, height: count * ROW, lanes: track.lanes.slice(0, count)});
        y += count * ROW + GAP;
      }
      this.bottom = y + this.scroll;
      this.counterRows = this.info.counters.slice(0, 40).map(counter => {
        const row = {counter, y, height: COUNTER};
        y += COUNTER + GAP;
        this.bottom = y + this.scroll;
        return row;
      });
      return rows;
    }

    get width() { return Math.max(50, this.stage.clientWidth - LABEL); }
    get height() { return Math.max(200, this.stage.clientHeight); }
    x(ns) { return LABEL + (ns - this.start) / (this.end - this.start) * this.width; }
    ns(x) { return this.start + (x - LABEL) / this.width * (this.end - this.start); }

    // ------------------------------------------------------------ data
    moved(tell = true) {
      if (!this.info) return;
      this.request();
      this.draw();
      if (tell) {
        clearTimeout(this.telling);
        this.telling = setTimeout(() => this.changed({start_ns: Math.round(this.start), end_ns: Math.round(this.end),
          selected: this.selected}), 250);
      }
    }

    /* Ask for a tile somewhat wider than the view, unless the one at hand will do. */
    request() {
      const rows = this.layout().filter(row => row.y < this.height && row.y + row.height > 0);
      const lanes = rows.flatMap(row => row.lanes);
      const span = this.end - this.start, have = this.tile;
      const fits = have && have.start <= this.start && have.end >= this.end && have.pixel <= span / this.width * 1.5 &&
        lanes.every(lane => have.places.has(lane));
      if (fits || !lanes.length) return;
      if (this.waiting) {
        this.again = true;
        return;
      }
      const margin = span * 0.5;
      const start = Math.floor(this.start - margin), end = Math.ceil(this.end + margin) + 1;
      this.waiting = this.load(lanes, start, end).finally(() => {
        this.waiting = null;
        if (this.again) {
          this.again = false;
          this.request();
        }
      });
    }

    async load(lanes, start, end) {
      const trace = this.trace, width = Math.round(this.width * 2);
      const answer = await fetch(this.api("tile", {lanes: lanes.join(","), start, end, width}));
      if (!answer.ok || trace !== this.trace) return;
      const data = await answer.arrayBuffer();
      const length = new DataView(data).getUint32(0, true);
      const head = JSON.parse(new TextDecoder().decode(new Uint8Array(data, 4, length)));
      const count = head.lane_first[head.lane_first.length - 1];
      let at = 4 + length;
      const take = kind => {
        const column = new kind(data, at, count);
        at += column.byteLength;
        return column;
      };
      this.tile = {
        start, end, pixel: (end - start) / width, first: head.lane_first, names: head.names,
        from: take(Float64Array), to: take(Float64Array), slice: take(Int32Array), count: take(Int32Array),
        name: take(Int32Array), category: take(Int32Array),
        places: new Map(head.lanes.map((lane, i) => [lane, i])),
      };
      this.draw();
      this.loadCounters();
    }

    async loadCounters() {
      const trace = this.trace;
      for (const row of this.counterRows || []) {
        if (row.y > this.height || row.y + row.height < 0) continue;
        const query = {counter: row.counter.counter, start: Math.floor(this.start), end: Math.ceil(this.end) + 1,
          width: Math.round(this.width)};
        const key = JSON.stringify(query), have = this.counters.get(row.counter.counter);
        if (have && have.key === key) continue;
        const answer = await fetch(this.api("counter", query));
        if (!answer.ok || trace !== this.trace) return;
        this.counters.set(row.counter.counter, {key, ...await answer.json()});
        this.draw();
      }
    }

    // ------------------------------------------------------------ drawing
    draw() {
      if (this.frame) return;
      this.frame = requestAnimationFrame(() => {
        this.frame = 0;
        const begun = performance.now();
        this.paint();
        this.root.dataset.frameMs = (performance.now() - begun).toFixed(2);
      });
    }

    paint() {
      const theme = THEMES[this.theme], ratio = window.devicePixelRatio || 1;
      const width = this.stage.clientWidth, height = this.height;
      if (this.canvas.width !== width * ratio || this.canvas.height !== height * ratio) {
        this.canvas.width = width * ratio;
        this.canvas.height = height * ratio;
      }
      const c = this.context = this.canvas.getContext("2d");
      c.setTransform(ratio, 0, 0, ratio, 0, 0);
      c.fillStyle = theme.paper;
      c.fillRect(0, 0, width, height);
      c.font = "12px system-ui, sans-serif";
      c.textBaseline = "middle";
      if (!this.info) return;
      this.rows = this.layout();
      let drawn = 0;
      c.save();
      c.beginPath();
      c.rect(LABEL, RULER + MINIMAP, this.width, height);
      c.clip();
      this.paintSteps(c, theme, height);
      for (const row of this.rows) if (row.y < height && row.y + row.height > 0) drawn += this.paintRow(c, row);
      for (const row of this.counterRows) if (row.y < height && row.y + row.height > 0) this.paintCounter(c, theme, row);
      this.paintArrows(c, theme);
      this.paintRange(c, theme, height);
      c.restore();
      this.paintLabels(c, theme, height);
      this.paintRuler(c, theme);
      this.paintMinimap(c, theme);
      this.root.dataset.drawn = String(drawn);
      this.where.textContent = `${short(this.start)} to ${short(this.end)}, ${short(this.end - this.start)} shown`;
    }

    paintRow(c, row) {
      const tile = this.tile;
      if (!tile) return 0;
      let drawn = 0;
      const right = LABEL + this.width, scale = this.width / (this.end - this.start);
      const texts = [];
      row.lanes.forEach((lane, level) => {
        const place = tile.places.get(lane);
        const y = row.y + level * ROW;
        if (place === undefined || y > this.height || y + ROW < RULER + MINIMAP) return;
        // One fill a colour: a path of rectangles is far faster than a fill each.
        const paths = new Map();
        for (let i = tile.first[place]; i < tile.first[place + 1]; i++) {
          const x = LABEL + (tile.from[i] - this.start) * scale;
          if (x > right) break;
          let w = (tile.to[i] - tile.from[i]) * scale;
          if (x + w < LABEL) continue;
          w = Math.max(w, 1);
          const color = this.color(tile.category[i], tile.name[i], tile.names);
          let path = paths.get(color);
          if (!path) paths.set(color, path = []);
          path.push(x, w > 2 ? w - 0.5 : w);
          drawn++;
          if (w > 28 && tile.count[i] === 1) texts.push([Math.max(x, LABEL) + 3, y, Math.min(x + w, right) - Math.max(x, LABEL) - 6,
            tile.names[tile.name[i]], INK[color]]);
        }
        for (const [color, boxes] of paths) {
          c.fillStyle = COLORS[color];
          c.beginPath();
          for (let i = 0; i < boxes.length; i += 2) c.rect(boxes[i], y + 0.5, boxes[i + 1], ROW - 1.5);
          c.fill();
        }
      });
      for (const [x, y, w, name, ink] of texts) {
        c.fillStyle = ink;
        const most = Math.floor(w / 6.2);
        if (most < 3) continue;
        c.fillText(name.length > most ? `${name.slice(0, most - 1)}…` : name, x, y + ROW / 2);
      }
      this.paintMarked(c, row);
      return drawn;
    }

    /* The selected slice and the matches of a search. */
    paintMarked(c, row) {
      const tile = this.tile, found = this.found && this.found.ids;
      row.lanes.forEach((lane, level) => {
        const place = tile.places.get(lane);
        if (place === undefined) return;
        const y = row.y + level * ROW;
        for (let i = tile.first[place]; i < tile.first[place + 1]; i++) {
          const isSelected = tile.slice[i] === this.selected;
          if (!isSelected && !(found && found.has(tile.slice[i]))) continue;
          c.strokeStyle = isSelected ? THEMES[this.theme].ink : THEMES[this.theme].mark;
          c.lineWidth = 2;
          c.strokeRect(this.x(tile.from[i]), y + 1, Math.max(2, this.x(tile.to[i]) - this.x(tile.from[i])), ROW - 2.5);
        }
      });
    }

    color(category, name, names) {
      const known = BY_CATEGORY[(this.info.categories[category] || "").toLowerCase()];
      if (known === 0 && /nccl|rccl|hccl|all_?reduce|multimem/i.test(names[name])) return 5;
      return known === undefined ? hash(names[name]) % COLORS.length : known;
    }

    paintSteps(c, theme, height) {
      this.info.steps.forEach((step, i) => {
        const x = this.x(step.start_ns), end = this.x(step.start_ns + step.dur_ns);
        if (end < LABEL || x > LABEL + this.width) return;
        if (i % 2 === 0) {
          c.fillStyle = theme.panel;
          c.fillRect(x, RULER + MINIMAP, end - x, height);
        }
        c.fillStyle = theme.line;
        c.fillRect(x, RULER + MINIMAP, 1, height);
      });
    }

    paintCounter(c, theme, row) {
      const data = this.counters.get(row.counter.counter);
      c.fillStyle = theme.line;
      c.fillRect(LABEL, row.y + row.height, this.width, 1);
      if (!data || !data.ts.length) return;
      const low = Math.min(0, ...data.min), high = Math.max(...data.max, low + 1e-12);
      const y = value => row.y + row.height - (value - low) / (high - low) * (row.height - 4);
      c.fillStyle = COLORS[4];
      data.ts.forEach((ts, i) => {
        const x = this.x(ts), next = i + 1 < data.ts.length ? this.x(data.ts[i + 1]) : LABEL + this.width;
        c.fillRect(x, y(data.max[i]), Math.max(1, next - x), row.y + row.height - y(data.max[i]));
      });
      c.fillStyle = theme.quiet;
      c.fillText(`${+high.toPrecision(6)}`, LABEL + 4, row.y + 8);
    }

    paintArrows(c, theme) {
      if (!this.arrows) return;
      const middle = place => {
        const row = this.rows.find(each => each.lanes.includes(place.lane));
        return row && row.y + (row.lanes.indexOf(place.lane) + 0.5) * ROW;
      };
      c.strokeStyle = theme.mark;
      c.lineWidth = 1.5;
      for (const arrow of this.arrows) {
        const y1 = middle(arrow.from), y2 = middle(arrow.to);
        if (y1 === undefined || y2 === undefined) continue;
        const x1 = this.x(arrow.from.start_ns + arrow.from.dur_ns), x2 = this.x(arrow.to.start_ns);
        c.beginPath();
        c.moveTo(x1, y1);
        c.bezierCurveTo(x1 + 30, y1, x2 - 30, y2, x2, y2);
        c.stroke();
        c.beginPath();
        c.moveTo(x2, y2);
        c.lineTo(x2 - 6, y2 - 3);
        c.lineTo(x2 - 6, y2 + 3);
        c.fillStyle = theme.mark;
        c.fill();
      }
    }

    paintRange(c, theme, height) {
      if (!this.range) return;
      const [a, b] = [this.x(this.range[0]), this.x(this.range[1])];
      c.fillStyle = theme.mark;
      c.globalAlpha = 0.12;
      c.fillRect(a, RULER + MINIMAP, b - a, height);
      c.globalAlpha = 1;
      c.fillRect(a, RULER + MINIMAP, 1, height);
      c.fillRect(b, RULER + MINIMAP, 1, height);
    }

    paintLabels(c, theme, height) {
      c.fillStyle = theme.paper;
      c.fillRect(0, RULER + MINIMAP, LABEL, height);
      c.save();
      c.beginPath();
      c.rect(0, RULER + MINIMAP, LABEL - 6, height);
      c.clip();
      for (const row of this.rows) {
        if (row.y > height || row.y + row.height + ROW < 0) continue;
        if (row.head !== null) {
          c.fillStyle = theme.quiet;
          c.font = "600 11px system-ui, sans-serif";
          c.fillText(row.head, 6, row.y - ROW / 2);
        }
        c.font = "12px system-ui, sans-serif";
        c.fillStyle = theme.ink;
        const mark = row.track.lanes.length < 2 ? "  " : this.collapsed.has(row.track.track) ? "▸ " : "▾ ";
        c.fillText(mark + row.track.label + (this.pinned.has(row.track.track) ? " ★" : ""), 6, row.y + ROW / 2);
      }
      for (const row of this.counterRows) {
        c.fillStyle = theme.ink;
        c.fillText(row.counter.label, 6, row.y + 10);
      }
      c.restore();
      c.fillStyle = theme.line;
      c.fillRect(LABEL - 1, RULER + MINIMAP, 1, height);
    }

    paintRuler(c, theme) {
      c.fillStyle = theme.panel;
      c.fillRect(0, MINIMAP, LABEL + this.width, RULER);
      const span = this.end - this.start, rough = span / Math.max(2, this.width / 110);
      const power = 10 ** Math.floor(Math.log10(rough));
      const step = Math.max(1, [1, 2, 5, 10].map(k => k * power).find(k => k >= rough));
      c.fillStyle = theme.quiet;
      for (let ns = Math.ceil(this.start / step) * step; ns <= this.end; ns += step) {
        const x = this.x(ns);
        c.fillRect(x, MINIMAP + RULER - 6, 1, 6);
        // Near the view, digits that do not change tell nothing: the offset from its start does.
        const text = step < span / 1e6 || Math.abs(ns) / step > 1e5 ? `+${short(ns - this.start)}` : short(ns);
        c.fillText(text, x + 3, MINIMAP + RULER / 2);
      }
      for (const step of this.info.steps) {
        const x = this.x(step.start_ns), w = step.dur_ns / span * this.width;
        if (w > 40 && x > LABEL - w && x < LABEL + this.width) {
          c.fillStyle = theme.mark;
          c.fillText(`#${step.number}`, Math.max(x, LABEL) + 3, MINIMAP + RULER + 8);
        }
      }
    }

    paintMinimap(c, theme) {
      c.fillStyle = theme.panel;
      c.fillRect(0, 0, LABEL + this.width, MINIMAP);
      const kinds = ["host", "device"].filter(kind => this.info.overview[kind]);
      kinds.forEach((kind, k) => {
        const bins = this.info.overview[kind], h = (MINIMAP - 4) / kinds.length, base = 2 + (k + 1) * h;
        c.fillStyle = theme.quiet;
        c.fillText(kind === "host" ? "host busy" : "GPU busy", 6, base - h / 2);
        c.fillStyle = COLORS[kind === "host" ? 2 : 0];
        const w = this.width / bins.length;
        bins.forEach((value, i) => { if (value) c.fillRect(LABEL + i * w, base - value * (h - 2), w + 0.3, value * (h - 2)); });
      });
      const whole = Math.max(1, this.info.length_ns);
      const a = LABEL + Math.max(0, this.start) / whole * this.width;
      const b = LABEL + Math.min(whole, this.end) / whole * this.width;
      c.strokeStyle = theme.ink;
      c.lineWidth = 1.5;
      c.strokeRect(a, 1, Math.max(3, b - a), MINIMAP - 3);
    }

    // ------------------------------------------------------------ moving
    zoom(factor, x) {
      const at = this.ns(x), least = 20;
      let span = Math.min(Math.max((this.end - this.start) * factor, least), Math.max(least, this.info.length_ns * 1.5));
      const share = (at - this.start) / (this.end - this.start);
      this.start = at - share * span;
      this.end = this.start + span;
      this.hold();
      this.moved();
    }

    pan(ns) {
      this.start += ns;
      this.end += ns;
      this.hold();
      this.moved();
    }

    /* Some of the recording stays in view. */
    hold() {
      const span = this.end - this.start, low = -span * 0.9, high = this.info.length_ns + span * 0.9;
      if (this.start < low) [this.start, this.end] = [low, low + span];
      if (this.end > high) [this.start, this.end] = [high - span, high];
    }

    scrollBy(pixels) {
      this.scroll = Math.min(Math.max(0, this.scroll + pixels), Math.max(0, this.bottom - this.height + 20));
      this.moved(false);
    }

    fit() {
      [this.start, this.end] = [0, Math.max(1, this.info.length_ns)];
      this.moved();
    }

    /* Bring a stretch of time, and a lane, into view. */
    reveal(start, dur, lane) {
      const margin = Math.max(dur * 2, 1000);
      [this.start, this.end] = [start - margin, start + dur + margin];
      const row = this.layout().find(each => each.track.lanes.includes(lane));
      if (row) {
        if (row.track.lanes.indexOf(lane) > 0) this.collapsed.delete(row.track.track);
        const y = row.y + row.track.lanes.indexOf(lane) * ROW;
        if (y < RULER + MINIMAP + ROW || y > this.height - 2 * ROW) this.scroll = Math.max(0, this.scroll + y - this.height / 2);
      }
      this.moved();
    }

    // ------------------------------------------------------------ input
    listen() {
      const canvas = this.canvas;
      const place = event => {
        const box = canvas.getBoundingClientRect();
        return [event.clientX - box.left, event.clientY - box.top];
      };
      canvas.addEventListener("wheel", event => {
        if (!this.info) return;
        event.preventDefault();
        const [x] = place(event);
        if (event.ctrlKey || event.metaKey || (!event.shiftKey && x > LABEL && !event.altKey)) {
          this.zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY / 300))), x);
        } else if (event.shiftKey) {
          this.pan((event.deltaY || event.deltaX) / this.width * (this.end - this.start));
        } else this.scrollBy(event.deltaY);
      }, {passive: false});
      canvas.addEventListener("pointerdown", event => {
        if (!this.info || event.button !== 0) return;
        canvas.focus();
        const [x, y] = place(event);
        this.drag = {x, y, start: this.start, end: this.end, scroll: this.scroll, moved: false,
          kind: y < MINIMAP && x > LABEL ? "map" : event.shiftKey || (y < MINIMAP + RULER && x > LABEL) ? "range" : "pan"};
        canvas.setPointerCapture(event.pointerId);
        if (this.drag.kind === "map") this.jump(x);
      });
      canvas.addEventListener("pointermove", event => {
        if (!this.info) return;
        const [x, y] = place(event), drag = this.drag;
        if (!drag) {
          this.point(x, y, event);
          return;
        }
        if (Math.abs(x - drag.x) + Math.abs(y - drag.y) > 3) drag.moved = true;
        if (drag.kind === "map") this.jump(x);
        else if (drag.kind === "range") {
          const edges = [this.ns(Math.max(LABEL, drag.x)), this.ns(Math.max(LABEL, x))].sort((a, b) => a - b);
          this.range = [Math.round(edges[0]), Math.round(edges[1])];
          this.draw();
        } else if (drag.moved) {
          const ns = (drag.x - x) / this.width * (drag.end - drag.start);
          [this.start, this.end] = [drag.start + ns, drag.end + ns];
          this.scroll = Math.min(Math.max(0, drag.scroll + drag.y - y), Math.max(0, this.bottom - this.height + 20));
          this.hold();
          this.moved();
        }
      });
      this.release = () => {
        const drag = this.drag;
        this.drag = null;
        if (!drag || !this.info) return;
        if (drag.kind === "range" && drag.moved) this.sum();
        else if (!drag.moved && drag.kind !== "map") this.click(drag.x, drag.y);
      };
      canvas.addEventListener("pointerup", this.release);
      canvas.addEventListener("pointerleave", () => { this.tip.hidden = true; });
      canvas.addEventListener("dblclick", event => {
        const [x, y] = place(event), item = this.at(x, y);
        if (item) this.reveal(item.from, item.to - item.from, item.lane);
      });
      canvas.addEventListener("keydown", event => this.key(event));
      this.search.addEventListener("keydown", event => {
        if (event.key === "Enter") {
          event.preventDefault();
          if (this.found && this.found.text === this.search.value) this.next(event.shiftKey ? -1 : 1);
          else this.look();
        } else if (event.key === "Escape") {
          this.search.value = "";
          this.look();
          canvas.focus();
        }
      });
    }

    key(event) {
      if (!this.info || event.ctrlKey || event.metaKey || event.altKey) return;
      const span = this.end - this.start, middle = LABEL + this.width / 2;
      const actions = {
        w: () => this.zoom(0.7, middle), s: () => this.zoom(1 / 0.7, middle), "+": () => this.zoom(0.7, middle),
        "-": () => this.zoom(1 / 0.7, middle), a: () => this.pan(-span / 6), d: () => this.pan(span / 6),
        arrowleft: () => this.pan(-span / 6), arrowright: () => this.pan(span / 6),
        arrowup: () => this.scrollBy(-3 * ROW), arrowdown: () => this.scrollBy(3 * ROW),
        pageup: () => this.scrollBy(-this.height / 2), pagedown: () => this.scrollBy(this.height / 2),
        f: () => this.fit(), "/": () => this.search.focus(), n: () => this.next(event.shiftKey ? -1 : 1),
        escape: () => { this.range = null; this.select(null); },
        enter: () => { if (this.selectedPlace) this.reveal(...this.selectedPlace); },
      };
      const action = actions[event.key.toLowerCase()];
      if (!action) return;
      event.preventDefault();
      action();
    }

    jump(x) {
      const span = this.end - this.start;
      const at = (Math.min(Math.max(x, LABEL), LABEL + this.width) - LABEL) / this.width * this.info.length_ns;
      [this.start, this.end] = [at - span / 2, at + span / 2];
      this.hold();
      this.moved();
    }

    /* The item at a place of the canvas. */
    at(x, y) {
      const tile = this.tile;
      if (!tile || x < LABEL || y < RULER + MINIMAP) return null;
      const row = (this.rows || []).find(each => y >= each.y && y < each.y + each.height);
      if (!row) return null;
      const lane = row.lanes[Math.floor((y - row.y) / ROW)], place = tile.places.get(lane);
      if (place === undefined) return null;
      const slack = (this.end - this.start) / this.width, ns = this.ns(x);
      let best = null;
      let low = tile.first[place], high = tile.first[place + 1];
      while (low < high) { // the last that starts before the place, and its neighbours
        const middle = low + high >> 1;
        if (tile.from[middle] <= ns + slack) low = middle + 1;
        else high = middle;
      }
      for (let i = Math.max(tile.first[place], low - 2); i < Math.min(tile.first[place + 1], low + 1); i++) {
        if (tile.from[i] <= ns + slack && Math.max(tile.to[i], tile.from[i] + slack) >= ns) best = i;
      }
      return best === null ? null : {slice: tile.slice[best], count: tile.count[best], from: tile.from[best], lane,
        to: tile.to[best], name: tile.names[tile.name[best]], category: this.info.categories[tile.category[best]]};
    }

    point(x, y, event) {
      const item = this.at(x, y);
      this.canvas.style.cursor = item ? "pointer" : y < RULER + MINIMAP ? "crosshair" : "grab";
      if (!item) {
        this.tip.hidden = true;
        return;
      }
      const lines = item.count > 1
        ? [`${item.count} slices`, `longest: ${item.name}`, `${duration(item.to - item.from)} in all; zoom in to tell them apart`]
        : [item.name, item.category || "", `${duration(item.to - item.from)} from ${duration(item.from)}`];
      this.tip.replaceChildren(...lines.filter(Boolean).map(line => element("div", {}, line)));
      this.tip.hidden = false;
      const box = this.stage.getBoundingClientRect();
      this.tip.style.left = `${Math.min(x + 14, box.width - 330)}px`;
      this.tip.style.top = `${y + 18}px`;
    }

    click(x, y) {
      if (x < LABEL) {
        const row = (this.rows || []).find(each => y >= each.y && y < each.y + each.height);
        if (!row) return;
        const set = x > LABEL - 30 ? this.pinned : this.collapsed, key = row.track.track;
        if (set.has(key)) set.delete(key);
        else set.add(key);
        this.moved(false);
        return;
      }
      const item = this.at(x, y);
      this.select(item ? item.slice : null);
    }

    async select(slice, tell = true) {
      this.selected = slice;
      this.arrows = null;
      this.selectedPlace = null;
      this.draw();
      if (tell) this.moved();
      if (slice === null) {
        this.detail.replaceChildren();
        return;
      }
      const trace = this.trace;
      const answer = await fetch(this.api("slice", {id: slice}));
      if (!answer.ok || trace !== this.trace || slice !== this.selected) return;
      const found = await answer.json();
      this.arrows = found.arrows;
      const lane = this.info.tracks.find(track => track.track === found.track)?.lanes[found.depth];
      this.selectedPlace = [found.start_ns, found.dur_ns, lane];
      this.describe(found);
      if (!tell && (found.start_ns + found.dur_ns < this.start || found.start_ns > this.end)) this.reveal(...this.selectedPlace);
      this.draw();
    }

    describe(found) {
      const rows = [["category", found.category], ["start", duration(found.start_ns)], ["duration", duration(found.dur_ns)],
        ["self time", duration(found.self_ns)], ["step", found.step], ["correlation id", found.correlation_id],
        ["source", found.source]];
      for (const [table, fields] of Object.entries(found.details)) {
        for (const {field, value, unit} of fields) {
          if (/_id$/.test(field) && unit.startsWith("row of")) continue;
          rows.push([field.replaceAll("_", " "), unit === "ns" ? duration(value) : `${value}${unit && unit !== "JSON" ? ` ${unit}` : ""}`]);
        }
      }
      const table = element("table", {class: "timeline-facts"}, element("tbody", {}, ...rows
        .filter(([, value]) => value !== null && value !== undefined && value !== "")
        .map(([label, value]) => element("tr", {}, element("th", {scope: "row"}, label), element("td", {}, String(value))))));
      const go = (label, id, place) => element("button", {type: "button", class: "timeline-link",
        onclick: () => { this.select(id); if (place) this.reveal(place.start_ns, place.dur_ns, place.lane); }}, label);
      const arrows = found.arrows.map(arrow => {
        const out = arrow.from.slice_id === found.slice_id, other = out ? arrow.to : arrow.from;
        const words = arrow.kind === "launch" ? (out ? "launched" : "launched by") : out ? "backward" : "forward";
        return element("li", {}, `${words}: `, go(`slice ${other.slice_id}, ${duration(Math.abs(
          arrow.to.start_ns - arrow.from.start_ns))} ${out ? "later" : "before"}`, other.slice_id, other));
      });
      const parents = found.parents.map(parent => element("li", {}, go(parent.name, parent.slice_id)));
      this.detail.replaceChildren(
        element("h3", {}, found.name),
        element("div", {class: "timeline-columns"}, table,
          ...(arrows.length ? [element("div", {}, element("h4", {}, "Arrows"), element("ul", {}, ...arrows))] : []),
          ...(parents.length ? [element("div", {}, element("h4", {}, "Inside"), element("ol", {}, ...parents))] : [])));
    }

    async sum() {
      const trace = this.trace, [start, end] = this.range;
      if (end <= start) return;
      const tracks = this.info.tracks.map(track => track.track).join(",");
      const answer = await fetch(this.api("selection", {tracks, start, end}));
      if (!answer.ok || trace !== this.trace) return;
      const found = await answer.json();
      const table = (title, key, rows) => element("div", {}, element("h4", {}, title), element("table", {class: "timeline-sums"},
        element("thead", {}, element("tr", {}, ...[key, "slices", "time inside", "self time"].map(text => element("th", {scope: "col"}, text)))),
        element("tbody", {}, ...rows.slice(0, 12).map(row => element("tr", {}, element("th", {scope: "row"}, row[key] || "(none)"),
          element("td", {}, String(row.count)), element("td", {}, short(row.total_ns)), element("td", {}, short(row.self_ns)))))));
      this.detail.replaceChildren(
        element("h3", {}, `${duration(found.dur_ns)} selected, ${found.num_slices} slices`),
        element("div", {class: "timeline-columns"}, table("By category", "category", found.categories),
          table("By name", "name", found.names)));
    }

    async look() {
      const text = this.search.value, trace = this.trace;
      if (!text) {
        this.found = null;
        this.matches.textContent = "";
        this.draw();
        return;
      }
      const answer = await fetch(this.api("search", {text}));
      if (!answer.ok || trace !== this.trace) return;
      const found = await answer.json();
      this.found = {text, at: -1, slices: found.slices, ids: new Set(found.slices.map(each => each.slice_id)), total: found};
      this.next(1);
    }

    next(step) {
      const found = this.found;
      if (!found) {
        if (this.search.value) this.look();
        return;
      }
      const count = found.slices.length;
      if (!count) {
        this.matches.textContent = "nothing found";
        this.draw();
        return;
      }
      found.at = (found.at + step + count) % count;
      const more = found.total.num_found > count ? ` of the first ${count}; ${found.total.num_found} in all` : ` of ${count}`;
      this.matches.textContent = `${found.at + 1}${more}, ${short(found.total.total_ns)} together`;
      const slice = found.slices[found.at];
      this.select(slice.slice_id).then(() => { if (this.selectedPlace) this.reveal(...this.selectedPlace); });
    }
  }

  function Timeline(props) {
    const React = window.React;
    const root = React.useRef(null), view = React.useRef(null);
    React.useEffect(() => {
      view.current = new View(root.current, change => props.setProps && props.setProps(change));
      return () => view.current.destroy();
    }, []);
    React.useEffect(() => {
      if (props.trace) view.current.show(props.trace, props.start_ns, props.end_ns, props.selected);
    }, [props.trace, props.start_ns, props.end_ns, props.selected]);
    return React.createElement("div", {id: props.id, ref: root, className: "timeline"});
  }

  window.profsuite_dashboard = Object.assign(window.profsuite_dashboard || {}, {Timeline});
})();
