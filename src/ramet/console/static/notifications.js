/* The browser's own notifications, for those who ask for them: of what is new while the page is not looked at. */
(function () {
  "use strict";

  const WANTED = "ramet-notify", TOLD = "ramet-notified";
  function kept(name, value) {
    try {
      if (value === undefined) return localStorage.getItem(name);
      localStorage.setItem(name, value);
    } catch { /* the browser keeps nothing */ }
    return null;
  }
  const can = () => "Notification" in window && window.isSecureContext;
  const wanted = () => can() && kept(WANTED) === "on" && Notification.permission === "granted";

  /* the button of the page of notifications */
  function show() {
    const button = document.getElementById("notify");
    if (!button || !can()) return;
    button.hidden = false;
    button.disabled = Notification.permission === "denied";
    button.textContent = button.disabled ? "Blocked in the browser's settings" : wanted() ? "Stop notifying me in this browser" : "Notify me in this browser";
  }
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("#notify");
    if (!button) return;
    if (wanted()) kept(WANTED, "off");
    else if (await Notification.requestPermission() === "granted") {
      kept(WANTED, "on");
      kept(TOLD, Math.max(button.dataset.sequence, Number(kept(TOLD) || 0)));
    }
    show();
  });

  /* each notice once, whatever the number of open pages */
  function tell() {
    const bell = document.getElementById("bell");
    const number = Number(bell?.dataset.sequence || 0);
    if (!wanted() || number <= Number(kept(TOLD) || 0)) return;
    kept(TOLD, number);
    if (document.hasFocus()) return;
    try {
      const told = new Notification(bell.dataset.text, { body: bell.dataset.reason, tag: "ramet-" + number });
      told.onclick = () => { window.focus(); location.href = bell.href; };
    } catch { /* on phones only service workers may notify */ }
  }
  document.addEventListener("htmx:afterSettle", (event) => { if (event.target.id === "bell") tell(); });
  /* a page that nobody sees does not hear of changes: it asks */
  setInterval(() => {
    const bell = document.getElementById("bell");
    if (bell && document.hidden && wanted()) window.htmx.trigger(bell, "refresh");
  }, 30000);
  show();
})();
