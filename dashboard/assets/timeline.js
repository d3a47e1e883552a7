/* The timeline: tracks of nested slices on a canvas, from tiles that the server computes.
 *
 * A Dash component in plain JavaScript: window.profsuite_dashboard.Timeline.  Its props are those of inputs.py; what a
 * link restores it sets as the user moves, everything else stays in here.  assets/theme.js says the theme.  The files
 * timeline-*.js, which are loaded before this one, hold its parts: each adds methods to a class.
 */
(() => {
  "use strict";

  const T = window.profsuiteTimeline;
  const {COLORS, COUNTER, GAP, LABEL, ROW, element} = T;
  const MOST_OPEN = 40; // tracks
  const either = (one, other) => new Set([...one, ...other].filter(each => one.has(each) !== other.has(each)));
  const Parts = [T.data, T.ruler, T.drawing, T.divider, T.moving, T.input, T.detail, T.selection, T.perfetto, T.search]
    .reduce((Base, part) => part(Base), class {});

  /* One timeline in one element.  `changed` hears of every move: the props, as the user set them. */
  class View extends Parts {
    constructor(root, changed) {
      super();
      this.root = root;
      this.changed = changed;
      this.trace = null;
      this.info = null;
      this.start = 0;
      this.end = 1;
      this.selected = null;
      this.range = null; // selected stretch of time
      this.chosen = null; // tracks that its sums are of; null: all
      this.collapsed = new Set();
      this.folded = new Set(); // those that are collapsed unless the user opens them
      this.told = null;
      this.pinned = new Set();
      this.scroll = 0;
      this.tile = null;
      this.counters = new Map();
      this.found = null;
      this.letters = new Map(); // widths
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
      this.detail = element("div", {class: "timeline-detail", "aria-live": "polite", role: "region", tabindex: "0",
        "aria-label": "What is selected"});
      this.tip = element("div", {class: "timeline-tip", hidden: ""});
      this.stage = element("div", {class: "timeline-stage"}, this.canvas, this.tip);
      this.legend = element("ul", {class: "timeline-legend", "aria-label": "Colours"});
      this.root.append(this.bar, this.stage, this.legend, this.buildDivider(), this.detail);
      this.fitted = () => this.root.style.setProperty("--timeline-top", `${this.root.getBoundingClientRect().top + window.scrollY}px`);
      this.fitted();
      window.addEventListener("resize", this.fitted);
      this.listen();
      this.sized = new ResizeObserver(() => this.moved());
      this.sized.observe(this.stage);
      this.themed = () => this.draw();
      window.addEventListener("profsuite-theme", this.themed);
    }

    get theme() { return document.documentElement.dataset.theme === "dark" ? "dark" : "light"; }

    destroy() {
      clearTimeout(this.resting);
      this.sized.disconnect();
      cancelAnimationFrame(this.frame);
      clearTimeout(this.telling);
      window.removeEventListener("resize", this.fitted);
      window.removeEventListener("profsuite-theme", this.themed);
      document.removeEventListener("keydown", this.keyed);
      this.root.replaceChildren();
    }

    async show(props) {
      const {trace, start_ns: start, end_ns: end, selected} = props;
      const given = Number.isFinite(start) && Number.isFinite(end) && end > start;
      const isSelected = Number.isFinite(selected);
      if (trace === this.trace) {
        // What this view said itself comes back here, maybe after it has moved on.
        const told = this.told || {};
        if (!this.info || (start === told.start_ns && end === told.end_ns && selected === told.selected)) return;
        if (given) this.goTo(start, end);
        if (isSelected && selected !== this.selected) this.select(selected, false);
        this.moved(false);
        return;
      }
      this.forget();
      this.trace = trace;
      this.draw();
      const answer = await fetch(this.api("tracks", {}));
      if (trace !== this.trace) return;
      if (!answer.ok) {
        this.where.textContent = `The timeline cannot be shown: ${await answer.text()}`;
        return;
      }
      const info = await answer.json();
      this.info = info;
      this.paintLegend();
      this.hint();
      [this.start, this.end] = [0, this.whole];
      this.restore(props);
      if (given) this.goTo(start, end);
      if (isSelected) {
        await this.select(selected, false);
        if (info !== this.info) return;
        const at = this.selectedPlace;
        if (at && !given) this.reveal(...at);
        else if (at && at[0] <= this.end && at[0] + at[1] >= this.start) this.toLane(at[2]);
      } else if (props.track) this.place = props.track;
      this.moved(false);
    }

    /* Nothing is left of the trace before. */
    forget() {
      this.info = this.tile = this.selected = this.arrows = this.selectedPlace = this.range = this.chosen = this.found = null;
      this.told = null;
      this.scroll = 0;
      this.counters = new Map();
      this.pinned = new Set();
      clearTimeout(this.telling);
    }

    /* What the address says beside view and selected slice. */
    restore({find, range, tracks, pinned, fold}) {
      const known = new Set(this.info.tracks.map(track => track.track));
      const some = numbers => new Set((numbers || []).filter(track => known.has(track)));
      this.pinned = some(pinned);
      this.folded = new Set(this.info.tracks.slice(MOST_OPEN).map(track => track.track));
      this.collapsed = either(this.folded, some(fold));
      if (tracks) this.chosen = some(tracks);
      const [first, last] = (range || [0, 0]).map(ns => Math.min(Math.max(0, ns), this.whole));
      if (last > first) {
        this.range = [first, last];
        this.sum();
      }
      if (find) {
        this.search.value = find;
        this.look(false);
      }
    }

    /* The stretch of an address, as far as it is in the recording; the address then says so. */
    goTo(start, end) {
      [this.start, this.end] = [start, end];
      this.hold();
      if (this.start !== start || this.end !== end) this.tell();
    }

    /* The tracks from top to bottom: pinned first.  Each has a y, a height and its lanes. */
    layout() {
      const tracks = [...this.info.tracks];
      tracks.sort((a, b) => this.pinned.has(b.track) - this.pinned.has(a.track));
      let y = this.top - this.scroll, group = null;
      const rows = [];
      for (const track of tracks) {
        const name = this.pinned.has(track.track) ? "pinned" : track.group;
        const head = name !== group;
        group = name;
        if (head) y += ROW;
        const lanes = this.collapsed.has(track.track) ? track.lanes.slice(0, 1) : track.lanes, count = lanes.length;
        rows.push({track, y, head: head ? name : null, height: count * ROW, lanes});
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

    moved(tell = true) {
      if (!this.info) return;
      this.request();
      this.draw();
      clearTimeout(this.resting);
      this.resting = setTimeout(() => this.loadCounters(), 150);
      if (tell) this.tell();
    }

    /* Say where the view is, once it rests. */
    tell() {
      clearTimeout(this.telling);
      this.telling = setTimeout(() => {
        const list = set => set.size ? [...set] : null;
        this.told = {start_ns: Math.round(this.start), end_ns: Math.round(this.end), selected: this.selected,
          find: this.search.value || null, range: this.range, tracks: this.chosen && [...this.chosen],
          track: this.selected === null ? this.place : null, pinned: list(this.pinned),
          fold: list(either(this.collapsed, this.folded))};
        this.changed(this.told);
      }, 250);
    }

    /* The colours of the kinds that the trace has. */
    paintLegend() {
      const hidden = this.info.num_hidden;
      this.legend.replaceChildren(...this.info.kinds.map(({kind, name}) => {
        const mark = element("i", {"aria-hidden": "true"});
        mark.style.background = COLORS[kind];
        return element("li", {}, mark, name);
      }), ...(hidden ? [element("li", {}, `${hidden} slices lie under others and are not drawn`)] : []));
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
      if (props.trace) view.current.show(props);
    }, [props.trace, props.start_ns, props.end_ns, props.selected]);
    return React.createElement("div", {id: props.id, ref: root, className: "timeline"});
  }

  window.profsuite_dashboard = Object.assign(window.profsuite_dashboard || {}, {Timeline});
})();
