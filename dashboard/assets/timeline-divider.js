/* Of the timeline: the bar between its tracks and the details, which moves with the mouse or arrow keys. */
(() => {
  "use strict";

  const T = window.profsuiteTimeline;
  const {element} = T;
  const KEPT = "profsuite-timeline-details", LEAST = 60, STEP = 24, MOST = 0.75;

  T.divider = Base => class extends Base {
    buildDivider() {
      this.divider = element("div", {class: "timeline-divider", role: "separator", tabindex: "0", hidden: "",
        "aria-orientation": "horizontal", "aria-label": "Height of the details", title: "Drag for more or less of the details"});
      try { this.detailHeight = Number(localStorage.getItem(KEPT)) || null; } catch { this.detailHeight = null; }
      this.divider.addEventListener("pointerdown", event => {
        event.preventDefault();
        this.divider.focus();
        this.divider.setPointerCapture(event.pointerId);
        this.dividing = {y: event.clientY, height: this.detail.offsetHeight};
      });
      this.divider.addEventListener("pointermove", event => {
        if (this.dividing) this.divide(this.dividing.height + this.dividing.y - event.clientY);
      });
      this.divider.addEventListener("pointerup", () => { this.dividing = null; });
      this.divider.addEventListener("keydown", event => {
        const by = {ArrowUp: STEP, ArrowDown: -STEP}[event.key];
        if (!by) return;
        event.preventDefault();
        this.divide(this.detail.offsetHeight + by);
      });
      return this.divider;
    }

    divide(height) {
      this.detailHeight = Math.round(Math.min(Math.max(height, LEAST), this.root.clientHeight * MOST));
      try { localStorage.setItem(KEPT, String(this.detailHeight)); } catch { /* for this view alone */ }
      this.sizeDetail(true);
    }

    /* The details have a height of their own only while there are some. */
    sizeDetail(open) {
      this.divider.hidden = !open;
      const chosen = open && this.detailHeight;
      this.detail.style.height = chosen ? `${Math.min(this.detailHeight, this.root.clientHeight * MOST)}px` : "";
      this.detail.style.maxHeight = chosen ? "none" : "";
      this.divider.setAttribute("aria-valuenow", String(Math.round(100 * this.detail.offsetHeight / Math.max(1, this.root.clientHeight))));
    }
  };
})();
