/* Conveniences over pages that work without them: local times, copying, live changes, and the time line's handle. */
(function () {
  "use strict";

  /* times in the viewer's zone; the title keeps UTC */
  const two = (n) => String(n).padStart(2, "0");
  const clock = (d) => two(d.getHours()) + ":" + two(d.getMinutes()) + ":" + two(d.getSeconds());
  const day = (d) => d.getFullYear() + "-" + two(d.getMonth() + 1) + "-" + two(d.getDate());
  function ago(d) {
    const seconds = Math.max(0, (Date.now() - d.getTime()) / 1000);
    const steps = [[60, 1, "s"], [3600, 60, "min"], [86400, 3600, "h"], [Infinity, 86400, "d"]];
    const [, unit, name] = steps.find(([limit]) => seconds < limit);
    return Math.floor(seconds / unit) + " " + name + " ago";
  }
  function localize(root) {
    for (const time of root.querySelectorAll("time[datetime]")) {
      const d = new Date(time.dateTime);
      const style = time.dataset.style;
      time.textContent = style === "clock" ? clock(d) : style === "ago" ? ago(d) : day(d) + " " + clock(d);
    }
  }
  /* RFC 3339 in the viewer's zone, to the millisecond */
  function local(d) {
    const east = -d.getTimezoneOffset();
    const zone = (east < 0 ? "-" : "+") + two(Math.floor(Math.abs(east) / 60)) + ":" + two(Math.abs(east) % 60);
    return day(d) + "T" + clock(d) + "." + String(d.getMilliseconds()).padStart(3, "0") + zone;
  }

  /* copying */
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    const source = document.getElementById(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(source.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(source);
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });

  /* the time line: handle, steps and exact text say the same */
  function bind(form) {
    const range = form.querySelector("input[type=range]");
    const exact = form.querySelector("[name=target_time]");
    if (!range || !exact || range.dataset.bound) return;
    range.dataset.bound = "yes";
    const tell = () => exact.dispatchEvent(new Event("change", { bubbles: true }));
    const name = () => { range.setAttribute("aria-valuetext", exact.value.replace("T", " ")); };
    const write = () => { exact.value = local(new Date(Number(range.value))); name(); };
    const read = () => {
      const milli = Date.parse(exact.value);
      if (!Number.isNaN(milli)) { range.value = milli; name(); }
    };
    if (exact.value) read(); else write();
    range.addEventListener("input", write);
    range.addEventListener("change", tell);
    exact.addEventListener("input", read);
    form.addEventListener("click", (event) => {
      const step = event.target.closest("[data-step]");
      const jump = event.target.closest("[data-moment]");
      if (!step && !jump) return;
      const from = Number.isNaN(Date.parse(exact.value)) ? Number(range.value) : Date.parse(exact.value);
      exact.value = jump ? jump.dataset.moment : local(new Date(from + Number(step.dataset.step)));
      read();
      tell();
    });
  }
  function bindAll() {
    document.querySelectorAll("form").forEach(bind);
  }

  /* details that were opened stay open when their part of the page is fetched again */
  const open = new Map();
  document.addEventListener("toggle", (event) => {
    if (event.target.id) open.set(event.target.id, event.target.open);
  }, true);
  function reopen(root) {
    for (const details of root.querySelectorAll("details[id]")) {
      if (open.has(details.id)) details.open = open.get(details.id);
    }
  }

  /* live changes: an event names the services that changed, the parts that show them are fetched again */
  const banner = document.getElementById("offline");
  let source = null;
  let lost = true; /* what changed between the page's making and the first event is fetched too */
  function refresh(ids) {
    for (const part of document.querySelectorAll("[data-live]")) {
      const wanted = part.dataset.live;
      if (ids === "*" || wanted === "*" || ids.split(" ").includes(wanted)) window.htmx.trigger(part, "refresh");
    }
  }
  function connect() {
    if (source || !banner) return;
    source = new EventSource("/console/events");
    source.addEventListener("hello", () => {
      banner.hidden = true;
      if (lost) refresh("*");
      lost = false;
    });
    source.addEventListener("changed", (event) => refresh(event.data));
    source.onerror = () => {
      lost = true;
      banner.hidden = false;
      if (source.readyState === EventSource.CLOSED) { source = null; setTimeout(connect, 2000); }
    };
  }
  function disconnect() {
    if (source) source.close();
    source = null;
    lost = true;
  }
  document.addEventListener("visibilitychange", () => { if (document.hidden) disconnect(); else connect(); });
  window.addEventListener("pagehide", disconnect);
  window.addEventListener("pageshow", () => { if (!document.hidden) connect(); });

  document.addEventListener("htmx:afterSettle", () => { localize(document); reopen(document); bindAll(); });
  localize(document);
  bindAll();
  setInterval(() => localize(document), 10000);
})();
