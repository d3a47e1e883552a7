/* Of the timeline: how the view moves. */
(() => {
  "use strict";

  const T = window.profsuiteTimeline;
  const {LABEL, MINIMAP, ROW, RULER} = T;

  T.moving = Base => class extends Base {
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
      const margin = Math.max(dur * 2, 1000), span = dur + 2 * margin;
      this.start = Math.max(0, Math.min(start - margin, this.info.length_ns - span));
      this.end = this.start + span;
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
