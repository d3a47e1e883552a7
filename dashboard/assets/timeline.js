/* The timeline: tracks of nested slices on a canvas, from tiles that the server computes.
 *
 * A Dash component in plain JavaScript: window.profsuite_dashboard.Timeline.  Its props are those of inputs.py; what a
 * link restores it sets as the user moves, everything else stays in here.  assets/theme.js says the theme.  The files
 * timeline-*.js, which are loaded before this one, hold its parts: each adds methods to a class.
 */
(() => {
  "use strict";

  const T = window.profsuiteTimeline;
  const {COUNTER, GAP, LABEL, LANES_SHOWN, MINIMAP, ROW, RULER, element} = T;
  const Parts = [T.data, T.drawing, T.moving, T.input, T.detail, T.selection, T.perfetto, T.search]
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

    async show({trace, start_ns: start, end_ns: end, selected, find, range, tracks}) {
      if (trace !== this.trace) {
        this.trace = trace;
        this.info = null;
        this.tile = null;
        this.selected = null;
        this.range = null;
        this.chosen = null;
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
        [this.start, this.end] = [0, this.whole];
        this.hint();
        const known = new Set(this.info.tracks.map(track => track.track));
        if (tracks) this.chosen = new Set(tracks.filter(track => known.has(track)));
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
      if (!this.info) return;
      const given = Number.isFinite(start) && Number.isFinite(end) && end > start;
      if (given && (start !== Math.round(this.start) || end !== Math.round(this.end))) {
        [this.start, this.end] = [start, end];
        this.hold();
        if (this.start !== start || this.end !== end) this.tell(); // the address says where the view is
      }
      if (selected !== null && selected !== undefined && selected !== this.selected) this.select(selected, false);
      this.moved(false);
    }

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

    moved(tell = true) {
      if (!this.info) return;
      this.request();
      this.draw();
      if (tell) this.tell();
    }

    /* Say where the view is, once it rests. */
    tell() {
      clearTimeout(this.telling);
      this.telling = setTimeout(() => this.changed({start_ns: Math.round(this.start), end_ns: Math.round(this.end),
        selected: this.selected, find: this.search.value || null, range: this.range,
        tracks: this.chosen && [...this.chosen]}), 250);
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
