/* Of the timeline: a stretch of it in Perfetto's viewer, the only page elsewhere that is ever opened, and on a click.
 *
 * The viewer says PONG to PING once it listens, and then takes a trace by message from window to window
 * (perfetto.dev/docs/visualization/deep-linking-to-perfetto-ui): the browser hands it over, nothing is uploaded.
 */
(() => {
  "use strict";

  const T = window.profsuiteTimeline;
  const VIEWER = "https://ui.perfetto.dev", EVERY_MS = 50, PATIENCE_MS = 30000;

  /* Until the viewer in another window answers; false where it does not. */
  const answers = other => new Promise(resolve => {
    const end = found => {
      clearInterval(asking);
      clearTimeout(giving_up);
      window.removeEventListener("message", hear);
      resolve(found);
    };
    const hear = event => {
      if (event.origin === VIEWER && event.source === other && event.data === "PONG") end(true);
    };
    window.addEventListener("message", hear);
    const asking = setInterval(() => {
      if (other.closed) end(false);
      else other.postMessage("PING", VIEWER);
    }, EVERY_MS);
    const giving_up = setTimeout(() => end(false), PATIENCE_MS);
  });

  T.perfetto = Base => class extends Base {
    async openInPerfetto(start, end) {
      const say = text => { this.elsewhere.textContent = ` ${text}`; };
      const other = window.open(VIEWER); // before anything is waited for: browsers block windows that come later
      if (!other) {
        say("The browser did not open a window: allow it for this page, or save the range and open the file there.");
        return;
      }
      say(`Waiting for ${VIEWER} …`);
      const title = `${this.trace} ${start}-${end} ns`;
      const [answer, ready] = await Promise.all([
        fetch(this.api("export", {start, end, format: "perfetto"})), answers(other)]);
      if (!answer.ok) {
        say(`The range cannot be exported: ${await answer.text()}`);
      } else if (!ready) {
        say(`${VIEWER} does not answer (no connection?): save the range, and open the file where it is reached.`);
      } else {
        const buffer = await answer.arrayBuffer();
        other.postMessage({perfetto: {buffer, title, localOnly: true}}, VIEWER);
        say(`Handed over to ${VIEWER}.`);
      }
    }
  };
})();
