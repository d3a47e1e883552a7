/* Of the timeline: what it fetches, tiles of its lanes and its counters. */
(() => {
  "use strict";

  const T = window.profsuiteTimeline;
  const {ROW, colorOf} = T;

  T.data = Base => class extends Base {
    api(path, query) {
      return `/api/${this.trace}/${path}?${new URLSearchParams(query)}`;
    }

    /* Ask for a tile somewhat wider than the view, unless the one at hand will do. */
    request() {
      const within = (from, to) => this.layout().flatMap(
        row => row.lanes.filter((_, level) => row.y + level * ROW < to && row.y + (level + 1) * ROW > from));
      const shown = within(this.top, this.height);
      const span = this.end - this.start, have = this.tile;
      const fits = have && have.start <= this.start && have.end >= this.end && have.pixel <= span / this.width * 1.5 &&
        shown.every(lane => have.places.has(lane));
      if (fits || !shown.length) return;
      if (this.waiting) {
        this.again = true;
        return;
      }
      // Also as much above and below, so that scrolling finds it there.
      const lanes = within(-this.height, 2 * this.height), margin = span * 0.5;
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
        name: take(Int32Array), category: take(Int32Array), color: take(Uint8Array),
        places: new Map(head.lanes.map((lane, i) => [lane, i])),
      };
      const {color, name} = this.tile; // kinds so far
      for (let i = 0; i < count; i++) color[i] = colorOf(color[i], name[i]);
      this.draw();
      this.loadCounters();
    }

    async loadCounters() {
      const trace = this.trace;
      if (!this.info) return;
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
  };
})();
