/* Of the timeline: what it fetches, tiles of its lanes and its counters. */
(() => {
  "use strict";

  const T = window.profsuiteTimeline;
  const {colorOf} = T;

  T.data = Base => class extends Base {
    api(path, query) {
      return `/api/${this.trace}/${path}?${new URLSearchParams(query)}`;
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
      this.tile.color = this.colorsOf(this.tile);
      this.draw();
      this.loadCounters();
    }

    /* The colour of each slice: found once a tile and name, not in every frame. */
    colorsOf(tile) {
      const known = new Map(), colors = new Uint8Array(tile.name.length);
      for (let i = 0; i < colors.length; i++) {
        const key = tile.category[i] * 2 ** 32 + tile.name[i];
        let color = known.get(key);
        if (color === undefined) {
          color = colorOf(this.info.categories[tile.category[i]], tile.names[tile.name[i]]);
          known.set(key, color);
        }
        colors[i] = color;
      }
      return colors;
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
  };
})();
