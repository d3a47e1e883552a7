/* Of the timeline: how the view moves. */
(() => {
  "use strict";

  const T = window.profsuiteTimeline;
  const {ROW} = T;
  const LEAST = 20; // ns in view
  const BESIDE = 0.3, AROUND = 20_000; // a slice's share of the width, and ns in view, where what is around it matters

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
      this.scrollTo(this.scroll + pixels);
      this.moved();
    }

    /* How far the tracks are scrolled: no further than to the last. */
    scrollTo(pixels) {
      this.layout();
      this.scroll = Math.min(Math.max(0, pixels), Math.max(0, this.bottom - this.height + 20));
    }

    /* The first track in view and how many of its rows are above, null where nothing is. */
    get place() {
      if (!this.scroll) return null;
      const rows = this.layout();
      const row = rows.findLast(each => each.y <= this.top) || rows[0];
      return [row.track.track, Math.max(0, Math.round((this.top - row.y) / ROW))];
    }

    set place([track, rows]) {
      const row = this.layout().find(each => each.track.track === track);
      if (row) this.scrollTo(this.scroll + row.y + rows * ROW - this.top);
    }

    /* A stretch of time as wide as the view, but for some room. */
    fill(start, dur, lane) {
      this.reveal(start, dur, lane, 0.9, LEAST);
    }

    fit() {
      this.view(0, this.whole);
    }

    /* Bring a stretch of time, and a lane, into view: the stretch in the middle, as a share of the width. */
    reveal(start, dur, lane, share = BESIDE, least = AROUND) {
      const span = Math.max(dur / share, least), middle = start + dur / 2;
      [this.start, this.end] = [middle - span / 2, middle + span / 2];
      this.hold();
      this.toLane(lane);
      this.moved();
    }

    /* Scroll a lane into view, to the middle or no further than it takes; a folded track is opened for it. */
    toLane(lane, middle = true) {
      const row = this.layout().find(each => each.track.lanes.includes(lane));
      if (!row) return;
      const level = row.track.lanes.indexOf(lane);
      if (level > 0) this.collapsed.delete(row.track.track);
      const y = row.y + level * ROW, last = this.height - 1.5 * ROW;
      if (y >= this.top && y <= last) return;
      const wanted = middle ? (this.top + last) / 2 : y < this.top ? this.top : last;
      this.scrollTo(this.scroll + y - wanted);
    }
  };
})();
