/* Of the timeline: everything that is drawn on its canvas. */
(() => {
  "use strict";

  const T = window.profsuiteTimeline;
  const {COLORS, GAP, INK, LABEL, MINIMAP, ROW, THEMES, quantity} = T;

  T.drawing = Base => class extends Base {
    draw() {
      if (this.frame) return;
      this.frame = requestAnimationFrame(() => {
        this.frame = 0;
        const begun = performance.now();
        this.paint();
        this.root.dataset.frameMs = (performance.now() - begun).toFixed(2);
      });
    }

    paint() {
      const theme = THEMES[this.theme], ratio = window.devicePixelRatio || 1;
      const width = this.stage.clientWidth, height = this.height;
      if (this.canvas.width !== width * ratio || this.canvas.height !== height * ratio) {
        this.canvas.width = width * ratio;
        this.canvas.height = height * ratio;
      }
      const c = this.context = this.canvas.getContext("2d");
      c.setTransform(ratio, 0, 0, ratio, 0, 0);
      c.fillStyle = theme.paper;
      c.fillRect(0, 0, width, height);
      c.font = "12px system-ui, sans-serif";
      c.textBaseline = "middle";
      if (!this.info) return;
      this.rows = this.layout();
      let drawn = 0;
      c.save();
      c.beginPath();
      c.rect(LABEL, this.top, this.width, height);
      c.clip();
      this.paintSteps(c, theme, height);
      for (const row of this.rows) if (row.y < height && row.y + row.height > 0) drawn += this.paintRow(c, row);
      for (const row of this.counterRows) if (row.y < height && row.y + row.height > 0) this.paintCounter(c, theme, row);
      this.paintArrows(c, theme);
      this.paintRange(c, theme, height);
      c.restore();
      this.paintLabels(c, theme, height);
      this.paintRuler(c, theme);
      this.paintMinimap(c, theme);
      this.root.dataset.drawn = String(drawn);
      this.sayWhere();
    }

    paintRow(c, row) {
      const tile = this.tile;
      if (!tile) return 0;
      let drawn = 0;
      const right = LABEL + this.width, scale = this.width / (this.end - this.start);
      const texts = [];
      row.lanes.forEach((lane, level) => {
        const place = tile.places.get(lane);
        const y = row.y + level * ROW;
        if (place === undefined || y > this.height || y + ROW < this.top) return;
        // One fill a colour: a path of rectangles is far faster than a fill each.
        const paths = new Map();
        for (let i = tile.first[place]; i < tile.first[place + 1]; i++) {
          const x = LABEL + (tile.from[i] - this.start) * scale;
          if (x > right) break;
          let w = (tile.to[i] - tile.from[i]) * scale;
          if (x + w < LABEL) continue;
          w = Math.max(w, 1);
          const color = tile.color[i];
          let path = paths.get(color);
          if (!path) paths.set(color, path = []);
          path.push(x, w > 2 ? w - 0.5 : w);
          drawn++;
          if (w > 28 && tile.count[i] === 1) texts.push([Math.max(x, LABEL) + 3, y, Math.min(x + w, right) - Math.max(x, LABEL) - 6,
            tile.names[tile.name[i]], INK[color]]);
        }
        for (const [color, boxes] of paths) {
          c.fillStyle = COLORS[color];
          c.beginPath();
          for (let i = 0; i < boxes.length; i += 2) c.rect(boxes[i], y + 0.5, boxes[i + 1], ROW - 1.5);
          c.fill();
        }
      });
      for (const [x, y, w, name, ink] of texts) {
        c.fillStyle = ink;
        const fitting = this.fitting(c, name, w);
        if (fitting) c.fillText(fitting, x, y + ROW / 2);
      }
      this.paintMarked(c, row);
      return drawn;
    }

    /* As much of a name as fits a width, "" where that is next to nothing.  Measuring is slow: each letter once. */
    fitting(c, name, width) {
      const dots = this.widthOf(c, "…");
      let used = 0, length = 0;
      for (let i = 0; i < name.length; i++) {
        used += this.widthOf(c, name[i]);
        if (used > width) return length < 2 ? "" : `${name.slice(0, length)}…`;
        if (used + dots <= width) length = i + 1;
      }
      return name;
    }

    widthOf(c, letter) {
      let width = this.letters.get(letter);
      if (width === undefined) this.letters.set(letter, width = c.measureText(letter).width);
      return width;
    }

    /* The selected slice and the matches of a search. */
    paintMarked(c, row) {
      const tile = this.tile, found = this.found && this.found.ids;
      if (this.selected === null && !found) return;
      row.lanes.forEach((lane, level) => {
        const place = tile.places.get(lane), y = row.y + level * ROW;
        if (place === undefined || y > this.height || y + ROW < this.top) return;
        for (let i = tile.first[place]; i < tile.first[place + 1]; i++) {
          const isSelected = tile.slice[i] === this.selected;
          if (!isSelected && !(found && found.has(tile.slice[i]))) continue;
          c.strokeStyle = isSelected ? THEMES[this.theme].ink : THEMES[this.theme].mark;
          c.lineWidth = 2;
          c.strokeRect(this.x(tile.from[i]), y + 1, Math.max(2, this.x(tile.to[i]) - this.x(tile.from[i])), ROW - 2.5);
        }
      });
    }

    paintSteps(c, theme, height) {
      this.info.steps.forEach((step, i) => {
        const x = this.x(step.start_ns), end = this.x(step.start_ns + step.dur_ns);
        if (end < LABEL || x > LABEL + this.width) return;
        if (i % 2 === 0) {
          c.fillStyle = theme.panel;
          c.fillRect(x, this.top, end - x, height);
        }
        c.fillStyle = theme.line;
        c.fillRect(x, this.top, 1, height);
      });
    }

    paintCounter(c, theme, row) {
      const data = this.counters.get(row.counter.counter);
      c.fillStyle = theme.line;
      c.fillRect(LABEL, row.y + row.height, this.width, 1);
      if (!data || !data.ts.length) return;
      const low = Math.min(0, ...data.min), most = Math.max(...data.max), high = most > low ? most : low + 1;
      const y = value => row.y + row.height - (value - low) / (high - low) * (row.height - 4);
      c.fillStyle = COLORS[4];
      data.ts.forEach((ts, i) => {
        const x = this.x(ts), next = i + 1 < data.ts.length ? this.x(data.ts[i + 1]) : LABEL + this.width;
        c.fillRect(x, y(data.max[i]), Math.max(1, next - x), row.y + row.height - y(data.max[i]));
      });
      c.fillStyle = theme.quiet;
      c.fillText(quantity(most, row.counter.unit), LABEL + 4, row.y + 8);
    }

    paintArrows(c, theme) {
      if (!this.arrows) return;
      const middle = place => {
        const row = this.rows.find(each => each.track.lanes.includes(place.lane));
        // Of a folded track the one row that is shown stands for all.
        return row && row.y + (Math.max(0, row.lanes.indexOf(place.lane)) + 0.5) * ROW;
      };
      c.strokeStyle = theme.mark;
      c.lineWidth = 1.5;
      for (const arrow of this.arrows) {
        const y1 = middle(arrow.from), y2 = middle(arrow.to);
        if (y1 === undefined || y2 === undefined) continue;
        const x1 = this.x(arrow.from.start_ns + arrow.from.dur_ns), x2 = this.x(arrow.to.start_ns);
        c.beginPath();
        c.moveTo(x1, y1);
        c.bezierCurveTo(x1 + 30, y1, x2 - 30, y2, x2, y2);
        c.stroke();
        c.beginPath();
        c.moveTo(x2, y2);
        c.lineTo(x2 - 6, y2 - 3);
        c.lineTo(x2 - 6, y2 + 3);
        c.fillStyle = theme.mark;
        c.fill();
      }
    }

    paintRange(c, theme, height) {
      if (!this.range) return;
      const [a, b] = [this.x(this.range[0]), this.x(this.range[1])];
      c.fillStyle = theme.mark;
      c.globalAlpha = 0.12;
      if (!this.chosen) c.fillRect(a, this.top, b - a, height);
      else for (const row of this.rows) {
        if (this.chosen.has(row.track.track)) c.fillRect(a, row.y - GAP / 2, b - a, row.height + GAP);
      }
      c.globalAlpha = 1;
      c.fillRect(a, this.top, 1, height);
      c.fillRect(b, this.top, 1, height);
    }

    paintLabels(c, theme, height) {
      c.fillStyle = theme.paper;
      c.fillRect(0, this.top, LABEL, height);
      c.save();
      c.beginPath();
      c.rect(0, this.top, LABEL - 6, height);
      c.clip();
      for (const row of this.rows) {
        if (row.y > height || row.y + row.height + ROW < 0) continue;
        if (row.head !== null) {
          c.fillStyle = theme.quiet;
          c.font = "600 11px system-ui, sans-serif";
          c.fillText(row.head, 6, row.y - ROW / 2);
        }
        c.font = "12px system-ui, sans-serif";
        c.fillStyle = theme.ink;
        const mark = row.track.lanes.length < 2 ? "  " : this.collapsed.has(row.track.track) ? "▸ " : "▾ ";
        // It stays in sight as long as the track does.
        const y = Math.max(row.y, Math.min(this.top, row.y + row.height - ROW));
        c.fillText(mark + row.track.label + (this.pinned.has(row.track.track) ? " ★" : ""), 6, y + ROW / 2);
        if (row.track.num_missing && row.lanes.length > 1) {
          c.fillStyle = theme.quiet;
          c.fillText(`${row.track.num_missing} more rows are hidden`, 6, row.y + row.height - ROW / 2);
        }
      }
      for (const row of this.counterRows) {
        c.fillStyle = theme.ink;
        c.fillText(row.counter.label, 6, row.y + 10);
      }
      c.restore();
      c.fillStyle = theme.line;
      c.fillRect(LABEL - 1, this.top, 1, height);
    }
  };
})();
