/* Of the timeline: the selected slice.  Names are text nodes: they come from traces. */
(() => {
  "use strict";

  const T = window.profsuiteTimeline;
  const {duration, element} = T;
  const HINT = "Click a slice for its details and what launched it, drag on the ruler to sum up a stretch of time, " +
    "press / to find a name.";

  T.detail = Base => class extends Base {
    async select(slice, tell = true) {
      this.selected = slice;
      this.arrows = null;
      this.selectedPlace = null;
      this.draw();
      if (tell) this.moved();
      if (slice === null) {
        this.hint();
        if (this.range) this.sum();
        return;
      }
      const trace = this.trace;
      const answer = await fetch(this.api("slice", {id: slice}));
      if (trace !== this.trace || slice !== this.selected) return;
      if (!answer.ok) {
        this.selected = null;
        this.detail.replaceChildren(element("p", {class: "note timeline-hint"}, `Slice ${slice}: ${answer.status === 404
          ? "there is none of this number in the trace" : await answer.text()}`));
        this.sizeDetail(false);
        return;
      }
      const found = await answer.json();
      this.arrows = found.arrows;
      const place = this.selectedPlace = [found.start_ns, found.dur_ns, found.lane];
      this.describe(found);
      this.draw();
      // The details may cover what was clicked; a double click, which would miss it then, is over by that time.
      if (tell) setTimeout(() => { if (place === this.selectedPlace) { this.toLane(found.lane, false); this.moved(false); } }, 400);
    }

    /* What to do, while nothing is selected. */
    hint() {
      this.detail.replaceChildren(element("p", {class: "note timeline-hint"}, HINT));
      this.sizeDetail(false);
    }

    /* A button that selects another slice. */
    go(label, slice, place) {
      return element("button", {type: "button", class: "timeline-link", onclick: () => {
        this.select(slice);
        if (place) this.reveal(place.start_ns, place.dur_ns, place.lane);
      }}, label);
    }

    describe(found) {
      this.detail.replaceChildren(
        element("h3", {}, found.name),
        element("div", {class: "timeline-columns"}, ...[
          element("div", {class: "timeline-from"}, ...[found.launch && this.launch(found.launch), this.links(found),
            this.around("Inside", found.parents)].filter(Boolean)),
          found.launch && this.around("Launched inside", found.launch.around), this.facts(found),
        ].filter(Boolean)));
      this.detail.scrollTop = 0;
      this.sizeDetail(true);
    }

    /* Where device work comes from: the op, the module and the line of the user's code. */
    launch({op, forward, module, source}) {
      const rows = [["op", op], ["forward op", forward], ["module", module], ["Python", source]];
      const parts = rows.filter(([, slice]) => slice)
        .map(([label, slice]) => fact(label, this.go(slice.name, slice.slice_id)));
      if (!source) parts.push(fact("Python", "none recorded; with_stack=True records it"));
      return element("div", {}, element("h4", {}, "On the host"),
        element("dl", {class: "timeline-facts"}, ...parts));
    }

    facts(found) {
      const rows = [["category", found.category], ["start", duration(found.start_ns)], ["duration", duration(found.dur_ns)],
        ["self time", duration(found.self_ns)], ["step", this.stepLink(found)], ["correlation id", found.correlation_id],
        ["source", found.source]];
      for (const fields of Object.values(found.details)) {
        for (const {field, value, unit} of together(fields)) {
          if (/_id$/.test(field) && unit.startsWith("row of")) continue;
          rows.push([field.replace(/_(bytes|pct)$/, "").replaceAll("_", " "), unit === "ns" ? duration(value) : `${value}${unit && unit !== "JSON" ? ` ${unit}` : ""}`]);
        }
      }
      return element("dl", {class: "timeline-facts timeline-wide"}, ...rows
        .filter(([, value]) => value !== null && value !== undefined && value !== "")
        .map(([label, value]) => fact(label, value instanceof Node ? value : String(value))));
    }

    /* The step of a slice, which leads to its range: an address of its own, followed without loading the page. */
    stepLink(found) {
      const step = found.step_id === null ? null : this.info.steps[found.step_id];
      if (!step) return null;
      const [start, end] = [step.start_ns, step.start_ns + Math.max(1, step.dur_ns)];
      return element("a", {href: `?${new URLSearchParams({start, end, selected: found.slice_id})}`,
        title: "Show the whole step", onclick: event => {
          if (event.ctrlKey || event.metaKey || event.shiftKey) return;
          event.preventDefault();
          this.view(start, end);
        }}, String(found.step));
    }

    /* What it launched and what launched it, forward and backward. */
    links(found) {
      const items = found.arrows.map(({kind, from, to}) => {
        const out = from.slice_id === found.slice_id, other = out ? to : from;
        const words = kind === "launch" ? (out ? "launches" : "launched by") : out ? "its backward:" : "backward of";
        const op = kind === "launch" && !out && found.launch?.op;
        return element("li", {}, `${words} `, this.go(other.name, other.slice_id, other),
          `, ${apart(to.start_ns - from.start_ns, out)}`, ...(op ? [", in ", this.go(op.name, op.slice_id)] : []));
      });
      return items.length ? element("div", {}, element("h4", {}, "Arrows"), element("ul", {}, ...items)) : null;
    }

    around(title, slices) {
      if (!slices.length) return null;
      return element("div", {class: "timeline-chain"}, element("h4", {}, title),
        element("ol", {}, ...slices.map(slice => element("li", {}, this.go(slice.name, slice.slice_id)))));
    }
  };

  /* Sizes in x, y and z as one fact. */
  const together = fields => fields.map((each, i) => {
    const name = each.field.replace(/_x$/, ""), [y, z] = [fields[i + 1], fields[i + 2]];
    return name === each.field || y?.field !== `${name}_y` || z?.field !== `${name}_z` ? each
      : {...each, field: name, value: [each, y, z].map(size => size.value).join(" × ")};
  }).filter((each, i, all) => !/_[yz]$/.test(each.field) || !all.some(({field}) => field === each.field.slice(0, -2)));

  const fact = (label, ...value) => element("div", {}, element("dt", {}, label), element("dd", {}, ...value));

  /* How far the start of what follows is from the start of what leads to it; clocks may have it before. */
  const apart = (ns, out = false) => `${duration(Math.abs(ns))} ${out === (ns >= 0) ? "later" : "before"}`;
})();
