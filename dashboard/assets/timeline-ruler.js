/* Of the timeline: what is above its tracks, where times are read: minimap, ruler, steps. */
(() => {
  "use strict";

  const T = window.profsuiteTimeline;
  const {COLORS, LABEL, MINIMAP, STEPS, TICKS, short, timeAt} = T;
  const STRIPS = {host: ["host busy (ops, calls)", 6], device: ["GPU busy (kernels, copies)", 0]};
  const MEANINGS = {host: "any host thread is in an op or a runtime call",
    device: "a kernel, a copy or a fill runs; of several GPUs the mean"};
  const MOST_DIGITS = 6;

  T.ruler = Base => class extends Base {
    /* Where the tracks begin. */
    get top() { return MINIMAP + TICKS + (this.info && this.info.steps.length ? STEPS : 0); }

    sayWhere() {
      const span = this.end - this.start, step = Math.max(1, 10 ** (Math.floor(Math.log10(span)) - 3));
      this.where.textContent =
        `${timeAt(this.start, step, this.end)} to ${timeAt(this.end, step)}, ${short(span)} shown`;
    }

    paintRuler(c, theme) {
      c.fillStyle = theme.panel;
      c.fillRect(0, MINIMAP, LABEL + this.width, this.top - MINIMAP);
      const span = this.end - this.start, rough = span / Math.max(2, this.width / 110);
      const power = 10 ** Math.floor(Math.log10(rough));
      const step = Math.max(1, [1, 2, 5, 10].map(k => k * power).find(k => k >= rough));
      c.fillStyle = theme.quiet;
      // Where so many digits tell the ticks apart that they are hard to read: one time, and how long after it.
      const long = step < 10 ** (Math.floor(Math.log10(Math.max(this.end, 1)) / 3) * 3 - MOST_DIGITS);
      const big = 10 ** (Math.floor(Math.log10(step)) + 3), base = Math.floor(this.start / big) * big;
      if (long) c.fillText(`${timeAt(base, big)} and`, 6, MINIMAP + TICKS / 2);
      for (let n = Math.ceil(this.start / step); n * step <= this.end; n++) {
        const x = this.x(n * step);
        c.fillRect(x, MINIMAP + TICKS - 5, 1, 5);
        const text = long ? `+${timeAt(n * step - base, step)}` : timeAt(n * step, step, this.end);
        c.fillText(text, x + 3, MINIMAP + TICKS / 2);
      }
      this.paintStepNames(c, theme);
    }

    paintStepNames(c, theme) {
      c.save();
      c.beginPath();
      c.rect(LABEL, MINIMAP + TICKS, this.width, STEPS);
      c.clip();
      for (const step of this.info.steps) {
        const x = this.x(step.start_ns), end = this.x(step.start_ns + step.dur_ns), from = Math.max(x, LABEL);
        if (end < LABEL || x > LABEL + this.width) continue;
        c.fillStyle = theme.line;
        c.fillRect(x, MINIMAP + TICKS, 1, STEPS);
        c.fillRect(from, MINIMAP + TICKS, end - from, 1);
        const name = `#${step.number}`;
        if (c.measureText(name).width + 6 > end - from) continue;
        c.fillStyle = theme.mark;
        c.fillText(name, from + 3, MINIMAP + TICKS + STEPS / 2 + 1);
      }
      c.restore();
      if (!this.info.steps.length) return;
      c.fillStyle = theme.quiet;
      c.fillText("steps", 6, MINIMAP + TICKS + STEPS / 2 + 1);
    }

    get strips() { return Object.keys(STRIPS).filter(kind => this.info.overview[kind]); }

    paintMinimap(c, theme) {
      c.fillStyle = theme.panel;
      c.fillRect(0, 0, LABEL + this.width, MINIMAP);
      this.strips.forEach((kind, k) => {
        const bins = this.info.overview[kind], h = (MINIMAP - 4) / this.strips.length, base = 2 + (k + 1) * h;
        const [label, color] = STRIPS[kind], w = this.width / bins.length;
        c.fillStyle = theme.quiet;
        c.fillText(label, 6, base - h / 2);
        c.fillStyle = COLORS[color];
        bins.forEach((value, i) => { if (value) c.fillRect(LABEL + i * w, base - value * (h - 2), w + 0.3, value * (h - 2)); });
      });
      const whole = Math.max(1, this.info.length_ns);
      const a = LABEL + Math.max(0, this.start) / whole * this.width;
      const b = LABEL + Math.min(whole, this.end) / whole * this.width;
      c.strokeStyle = theme.ink;
      c.lineWidth = 1.5;
      c.strokeRect(a, 1, Math.max(3, b - a), MINIMAP - 3);
    }

    /* What a strip of the minimap says at a place. */
    stripAt(x, y) {
      const kind = y < MINIMAP ? this.strips[Math.floor((y - 2) / (MINIMAP - 4) * this.strips.length)] : undefined;
      if (!kind) return null;
      const bins = this.info.overview[kind], long = this.whole / bins.length;
      const meaning = `busy: ${MEANINGS[kind]}`;
      if (x < LABEL) return [meaning];
      const i = Math.min(bins.length - 1, Math.floor((x - LABEL) / this.width * bins.length));
      return [`${(100 * bins[i]).toFixed(1)} % busy in the ${short(long)} from ${timeAt(i * long, long / 10)}`, meaning];
    }
  };
})();
