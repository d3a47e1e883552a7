/* Of the timeline: the selected slice. */
(() => {
  "use strict";

  const T = window.profsuiteTimeline;
  const {duration, element} = T;

  T.detail = Base => class extends Base {
    async select(slice, tell = true) {
      this.selected = slice;
      this.arrows = null;
      this.selectedPlace = null;
      this.draw();
      if (tell) this.moved();
      if (slice === null) {
        this.detail.replaceChildren();
        if (this.range) this.sum();
        return;
      }
      const trace = this.trace;
      const answer = await fetch(this.api("slice", {id: slice}));
      if (!answer.ok || trace !== this.trace || slice !== this.selected) return;
      const found = await answer.json();
      this.arrows = found.arrows;
      const lane = this.info.tracks.find(track => track.track === found.track)?.lanes[found.depth];
      this.selectedPlace = [found.start_ns, found.dur_ns, lane];
      this.describe(found);
      if (!tell && (found.start_ns + found.dur_ns < this.start || found.start_ns > this.end)) this.reveal(...this.selectedPlace);
      this.draw();
    }

    describe(found) {
      const rows = [["category", found.category], ["start", duration(found.start_ns)], ["duration", duration(found.dur_ns)],
        ["self time", duration(found.self_ns)], ["step", found.step], ["correlation id", found.correlation_id],
        ["source", found.source]];
      for (const [table, fields] of Object.entries(found.details)) {
        for (const {field, value, unit} of fields) {
          if (/_id$/.test(field) && unit.startsWith("row of")) continue;
          rows.push([field.replaceAll("_", " "), unit === "ns" ? duration(value) : `${value}${unit && unit !== "JSON" ? ` ${unit}` : ""}`]);
        }
      }
      const table = element("table", {class: "timeline-facts"}, element("tbody", {}, ...rows
        .filter(([, value]) => value !== null && value !== undefined && value !== "")
        .map(([label, value]) => element("tr", {}, element("th", {scope: "row"}, label), element("td", {}, String(value))))));
      const go = (label, id, place) => element("button", {type: "button", class: "timeline-link",
        onclick: () => { this.select(id); if (place) this.reveal(place.start_ns, place.dur_ns, place.lane); }}, label);
      const arrows = found.arrows.map(arrow => {
        const out = arrow.from.slice_id === found.slice_id, other = out ? arrow.to : arrow.from;
        const words = arrow.kind === "launch" ? (out ? "launched" : "launched by") : out ? "backward" : "forward";
        return element("li", {}, `${words}: `, go(`slice ${other.slice_id}, ${duration(Math.abs(
          arrow.to.start_ns - arrow.from.start_ns))} ${out ? "later" : "before"}`, other.slice_id, other));
      });
      const parents = found.parents.map(parent => element("li", {}, go(parent.name, parent.slice_id)));
      this.detail.replaceChildren(
        element("h3", {}, found.name),
        element("div", {class: "timeline-columns"}, table,
          ...(arrows.length ? [element("div", {}, element("h4", {}, "Arrows"), element("ul", {}, ...arrows))] : []),
          ...(parents.length ? [element("div", {}, element("h4", {}, "Inside"), element("ol", {}, ...parents))] : [])));
    }
  };
})();
