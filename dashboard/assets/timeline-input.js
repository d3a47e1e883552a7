/* Of the timeline: mouse and keys. */
(() => {
  "use strict";

  const T = window.profsuiteTimeline;
  const {LABEL, MINIMAP, ROW, duration, element} = T;

  T.input = Base => class extends Base {
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
          kind: y < MINIMAP && x > LABEL ? "map" : event.shiftKey || (y < this.top && x > LABEL) ? "range" : "pan"};
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
          const edges = [this.ns(this.within(drag.x)), this.ns(this.within(x))].sort((a, b) => a - b);
          this.range = [Math.round(edges[0]), Math.round(edges[1])];
          if (drag.y < this.top) this.chosen = null;
          else this.choose(drag.y, y);
          this.draw();
        } else if (drag.moved) {
          const ns = (drag.x - x) / this.width * (drag.end - drag.start);
          [this.start, this.end] = [drag.start + ns, drag.end + ns];
          this.scrollTo(drag.scroll + drag.y - y);
          this.hold();
          this.moved();
        }
      });
      this.release = () => {
        const drag = this.drag;
        this.drag = null;
        if (!drag || !this.info) return;
        if (drag.kind === "range" && drag.moved) {
          this.selected = this.arrows = this.selectedPlace = null;
          this.tell();
          this.sum();
        }
        else if (!drag.moved && drag.kind !== "map") this.click(drag.x, drag.y);
      };
      canvas.addEventListener("pointerup", this.release);
      canvas.addEventListener("pointerleave", () => { this.tip.hidden = true; });
      canvas.addEventListener("dblclick", event => {
        const [x, y] = place(event), item = this.at(x, y);
        if (item) this.fill(item.from, item.to - item.from, item.lane);
      });
      // Keys work wherever the focus is, but where they mean something else.
      this.keyed = event => {
        if (!event.defaultPrevented && !event.target.closest?.("input, textarea, select, [contenteditable]")) this.key(event);
      };
      document.addEventListener("keydown", this.keyed);
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
        escape: () => { this.range = this.chosen = null; this.select(null); },
        enter: () => { if (this.selectedPlace) this.reveal(...this.selectedPlace); },
      };
      const name = event.key.toLowerCase(), action = actions[name];
      const free = [document.body, document.documentElement, this.canvas].includes(event.target);
      if (!action || (!free && /^(arrow|page|enter)/.test(name))) return; // details scroll, buttons are pressed
      event.preventDefault();
      action();
    }

    /* The place of the drawing that is nearest to one of the canvas. */
    within(x) { return Math.min(Math.max(x, LABEL), LABEL + this.width); }

    /* Move to a place of the minimap. */
    jump(x) {
      const span = this.end - this.start;
      const at = (this.within(x) - LABEL) / this.width * this.whole;
      [this.start, this.end] = [at - span / 2, at + span / 2];
      this.hold();
      this.moved();
    }

    /* The item at a place of the canvas. */
    at(x, y) {
      const tile = this.tile;
      if (!tile || x < LABEL || y < this.top) return null;
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
      const item = this.at(x, y), strip = this.stripAt(x, y);
      this.canvas.style.cursor = item ? "pointer" : y < this.top ? "crosshair" : "grab";
      if (!item && !strip) {
        this.tip.hidden = true;
        return;
      }
      const lines = strip || (item.count > 1
        ? [`${item.count} slices`, `longest: ${item.name}`, `${duration(item.to - item.from)} in all; zoom in to tell them apart`]
        : [item.name, item.category || "", `${duration(item.to - item.from)} from ${duration(item.from)}`]);
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
        this.scrollTo(this.scroll);
        this.moved();
        return;
      }
      const item = this.at(x, y);
      this.select(item ? item.slice : null);
    }
  };
})();
