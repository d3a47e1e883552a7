/* The theme: the system's, or what the button chose; kept in this browser alone. */
(() => {
  "use strict";
  const root = document.documentElement, system = window.matchMedia("(prefers-color-scheme: dark)");
  const kept = () => { try { return localStorage.getItem("profsuite-theme"); } catch { return null; } };
  const apply = () => {
    const theme = kept() || (system.matches ? "dark" : "light");
    if (root.dataset.theme === theme) return;
    root.dataset.theme = theme;
    root.dataset.agThemeMode = theme;
    window.dispatchEvent(new Event("profsuite-theme"));
  };
  apply();
  system.addEventListener("change", apply);
  document.addEventListener("click", event => {
    if (!event.target.closest("#theme")) return;
    try { localStorage.setItem("profsuite-theme", root.dataset.theme === "dark" ? "light" : "dark"); } catch { return; }
    apply();
  });
})();
