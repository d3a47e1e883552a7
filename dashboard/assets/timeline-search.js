/* Of the timeline: slices by their names. */
(() => {
  "use strict";

  const T = window.profsuiteTimeline;
  const {short} = T;

  T.search = Base => class extends Base {
    /* Find what the search field holds, and go to the first match unless the view is to stay. */
    async look(go = true) {
      const text = this.search.value, trace = this.trace;
      if (!text) {
        this.found = null;
        this.matches.textContent = "";
        this.tell();
        this.draw();
        return;
      }
      const answer = await fetch(this.api("search", {text}));
      if (!answer.ok || trace !== this.trace) return;
      const found = await answer.json();
      this.found = {text, at: -1, slices: found.slices, ids: new Set(found.slices.map(each => each.slice_id)), total: found};
      this.tell();
      if (go) this.next(1);
      else {
        this.matches.textContent = `${found.num_found} found, ${short(found.total_ns)} together`;
        this.draw();
      }
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
  };
})();
