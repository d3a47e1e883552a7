/* Of the timeline: a selected stretch of time, its sums by category and name, and what can be done with it. */
(() => {
  "use strict";

  const T = window.profsuiteTimeline;
  const {duration, element, short} = T;
  const SUMS_SHOWN = 12;

  T.selection = Base => class extends Base {
    /* The tracks that sums are of: those chosen, else all. */
    get summed() { return this.chosen ? [...this.chosen] : this.info.tracks.map(track => track.track); }

    /* Choose the tracks whose rows lie between two places of the canvas; all of them where none does. */
    choose(y1, y2) {
      const [top, bottom] = [Math.min(y1, y2), Math.max(y1, y2)];
      const touched = this.rows.filter(row => row.y <= bottom && row.y + row.height >= top).map(row => row.track.track);
      this.chosen = touched.length ? new Set(touched) : null;
    }

    async sum() {
      const trace = this.trace, [start, end] = this.range;
      if (end <= start) return;
      const asked = ++this.asked;
      const answer = await fetch(this.api("selection", {tracks: this.summed.join(","), start, end}));
      if (!answer.ok || trace !== this.trace || asked !== this.asked || this.selected !== null) return;
      const found = await answer.json();
      const open = this.detail.querySelector(".timeline-tracks")?.open;
      const controls = () => [...this.detail.querySelectorAll(".timeline-tracks :is(input, button)")];
      const focused = controls().indexOf(document.activeElement);  // the keyboard stays where it was
      this.detail.replaceChildren(
        element("h3", {}, `${duration(found.dur_ns)} selected, ${found.num_slices} slices of ${this.chosenWords()}`),
        element("div", {class: "timeline-about"}, this.ways(start, end), this.chooser(open)),
        element("div", {class: "timeline-columns"}, sums("By category", "category", found.categories),
          sums("By name", "name", found.names)));
      this.sizeDetail(true);
      controls()[focused]?.focus();
    }

    chosenWords() {
      const all = this.info.tracks.length, some = this.chosen ? this.chosen.size : all;
      return some === all ? "all tracks" : some === 1 ? "one track" : `${some} of ${all} tracks`;
    }

    /* What can be done with the stretch: all tracks of it, saved or shown elsewhere. */
    ways(start, end) {
      const save = (label, format) => element("a", {class: "timeline-save", download: "",
        href: this.api("export", {start, end, format})}, label);
      this.elsewhere = element("span", {role: "status"});
      return element("p", {class: "timeline-ways"}, "Save this range, all tracks: ", save("Chrome JSON", "chrome"),
        save("Perfetto", "perfetto"), element("button", {type: "button", class: "timeline-save",
          title: "Hands the range to ui.perfetto.dev in another window of this browser; nothing is uploaded",
          onclick: () => this.openInPerfetto(start, end)}, "Open in Perfetto"), this.elsewhere);
    }

    chooser(open) {
      const set = chosen => {
        this.chosen = chosen && chosen.size === this.info.tracks.length ? null : chosen;
        this.tell();
        this.draw();
        this.sum();
      };
      const boxes = this.info.tracks.map(track => {
        const box = element("input", {type: "checkbox", onchange: () => {
          const chosen = new Set(this.summed);
          if (box.checked) chosen.add(track.track);
          else chosen.delete(track.track);
          set(chosen);
        }});
        box.checked = !this.chosen || this.chosen.has(track.track);
        return element("label", {}, box, ` ${track.group}: ${track.label}`);
      });
      const button = (label, chosen) => element("button", {type: "button", class: "timeline-save",
        onclick: () => set(chosen())}, label);
      const made = element("details", {class: "timeline-tracks"}, element("summary", {}, "Choose the tracks that are summed"),
        button("All", () => null), button("None", () => new Set()), element("div", {}, ...boxes));
      made.open = Boolean(open);
      return made;
    }
  };

  const sums = (title, key, rows) => element("div", {class: `timeline-by-${key}`}, element("h4", {},
    `${title} (nested slices count in both)`), element("table", {class: "timeline-sums"},
    element("thead", {}, element("tr", {},
      ...[key, "slices", "time inside", "self time"].map(text => element("th", {scope: "col"}, text)))),
    element("tbody", {}, ...rows.slice(0, SUMS_SHOWN).map(row => element("tr", {},
      element("th", {scope: "row"}, row[key] || "(none)"), element("td", {}, String(row.count)),
      element("td", {}, short(row.total_ns)), element("td", {}, short(row.self_ns)))))));
})();
