/* Of the timeline: how the view moves. */
(() => {
  "use strict";

  const T = window.profsuiteTimeline;
  const {MINIMAP, ROW, RULER} = T;
  const LEAST = 20; // ns in view

  T.moving = Base => class extends Base {
    zoom(factor, x) {
      const at = this.ns(x);
      const span = Math.min(Math.max((this.end - this.start) * factor, LEAST), this.whole);
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

    get whole() { return Math.max(1, this.info.length_ns); }

    /* The view stays within the recording: no wider than it, and moved back in where it leaves it. */
    hold() {
      const span = Math.min(this.end - this.start, this.whole);
      this.start = Math.min(Math.max(0, this.start), this.whole - span);
      this.end = Math.min(this.start + span, this.whole);
    }

    /* Show a stretch of time, as far as it is in the recording. */
    view(start, end) {
      [this.start, this.end] = [start, end];
      this.hold();
      this.moved();
    }

    scrollBy(pixels) {
      this.scroll = Math.min(Math.max(0, this.scroll + pixels), Math.max(0, this.bottom - this.height + 20));
      this.moved(false);
    }

    fit() {
      this.view(0, this.whole);
    }

    /* Bring a stretch of time, and a lane, into view. */
    reveal(start, dur, lane) {
      const margin = Math.max(dur * 2, 1000), span = dur + 2 * margin;
      [this.start, this.end] = [start - margin, start - margin + span];
      this.hold();
      const row = this.layout().find(each => each.track.lanes.includes(lane));
      if (row) {
        if (row.track.lanes.indexOf(lane) > 0) this.collapsed.delete(row.track.track);
        const y = row.y + row.track.lanes.indexOf(lane) * ROW;
        if (y < RULER + MINIMAP + ROW || y > this.height - 2 * ROW) this.scroll = Math.max(0, this.scroll + y - this.height / 2);
      }
      this.moved();
    }
  };
})();
