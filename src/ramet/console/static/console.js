/* Conveniences for pages that work without scripts: local times, copying, live updates, and the timeline's handle. */
(function () {
  "use strict";

  /* times in the viewer's zone; the title keeps UTC */
  const two = (n) => String(n).padStart(2, "0");
  const clock = (d) => two(d.getHours()) + ":" + two(d.getMinutes()) + ":" + two(d.getSeconds());
  const day = (d) => String(d.getFullYear()).padStart(4, "0") + "-" + two(d.getMonth() + 1) + "-" + two(d.getDate());
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
      time.textContent = style === "clock" ? clock(d) : style === "ago" ? ago(d) : style === "minute" ? day(d) + " " + clock(d).slice(0, 5) : day(d) + " " + clock(d) + (style === "exact" ? (/\.\d+/.exec(time.dateTime) || [""])[0] : "");
    }
  }
  /* RFC 3339 in the viewer's zone, to the millisecond */
  function local(d) {
    const east = -d.getTimezoneOffset();
    const zone = (east < 0 ? "-" : "+") + two(Math.floor(Math.abs(east) / 60)) + ":" + two(Math.abs(east) % 60);
    return day(d) + "T" + clock(d) + "." + String(d.getMilliseconds()).padStart(3, "0") + zone;
  }

  /* a double click sends a form once: the browser would show the answer to the second request only */
  document.addEventListener("click", (event) => {
    if (event.detail > 1 && event.target.closest("form[method=post] button:not([type=button])")) event.preventDefault();
  });

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

  /* the target time as typed: a time without an offset is in the viewer's zone. Anything else is left as it is, also times
     that a change of the clock skipped here: the server refuses them */
  function parsed(text) {
    const found = /^(?:(\d{4}-\d\d-\d\d)[ T])?(\d\d?:\d\d(?::\d\d)?)(\.\d{1,6})?$/.exec(text.trim());
    if (!found) return text.trim();
    const hours = found[2].length % 3 === 1 ? "0" + found[2] : found[2];
    const wanted = (found[1] || day(new Date())) + "T" + hours;
    const exact = local(new Date(wanted));
    return exact.startsWith(wanted) ? exact.replace(/\.\d{3}/, found[3] || "") : text.trim();
  }

  /* the millisecond of a complete and valid time; NaN for any other text */
  const whole = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d{1,3}(\d{0,3}))?(?:Z|[+-]\d\d:\d\d)$/;
  function milliOf(text) {
    const [, clock] = whole.exec(text) || [];
    const d = new Date(clock + "Z");
    return !Number.isNaN(d.getTime()) && d.toISOString().startsWith(clock) ? Date.parse(text) : NaN;
  }

  /* keeps the timeline's handle, the buttons, the target time and the restore point in step */
  function bind(form) {
    const range = form.querySelector("input[type=range]");
    const exact = form.querySelector("[name=target_time]");
    if (!exact || exact.dataset.bound) return;
    exact.dataset.bound = "yes";
    const notify = () => exact.dispatchEvent(new Event("change", { bubbles: true }));
    exact.addEventListener("change", () => { exact.value = parsed(exact.value); });
    if (!range) return;
    const chosen = () => form.querySelector("[name=strategy]:checked")?.value;
    const choose = () => { form.querySelector("[name=strategy][value=PITR]").checked = true; };
    const shown = () => local(new Date(Number(range.value)));
    const move = (milli) => { range.value = milli; range.setAttribute("aria-valuetext", shown().replace("T", " ")); };
    const write = () => { exact.value = shown(); move(range.value); };
    const read = () => {
      const milli = milliOf(parsed(exact.value));
      if (!Number.isNaN(milli)) move(milli);
    };
    const place = () => {
      if (chosen() === "NOW") move(range.max);
      else if (chosen() === "LAST_SNAPSHOT") move(range.dataset.snapshot);
      else if (exact.value) read(); else write();
    };
    place();
    form.addEventListener("change", (event) => { if (event.target.name === "strategy") place(); });
    range.addEventListener("input", () => { choose(); write(); });
    range.addEventListener("change", notify);
    exact.addEventListener("input", read);
    form.addEventListener("click", (event) => {
      const step = event.target.closest("[data-step]");
      if (!step) return;
      const milli = milliOf(exact.value);
      const [, , finer] = whole.exec(exact.value) || [];
      const from = Number.isNaN(milli) ? Number(range.value) : milli;
      exact.value = local(new Date(from + Number(step.dataset.step))).replace(/\.\d{3}/, "$&" + (finer || ""));
      read();
      notify();
    });
  }
  /* a preview requested while the target time is being typed uses the time as it will be sent */
  document.addEventListener("htmx:configRequest", (event) => {
    const asked = event.detail.parameters;
    if (asked.target_time) asked.target_time = parsed(asked.target_time);
  });
  document.addEventListener("click", (event) => {
    const line = event.target.closest("a.pick");
    if (!line || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const box = line.getBoundingClientRect();
    const share = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
    const at = new Date(Number(line.dataset.first) + share * (line.dataset.last - line.dataset.first));
    chosen = at;
    offer();
  });
  /* what can be done as of the time that was chosen on the timeline; live updates keep it */
  let chosen = null;
  function offer() {
    const part = document.getElementById("here");
    if (!part || !chosen) return;
    part.querySelector("time").dateTime = chosen.toISOString();
    for (const link of part.querySelectorAll("a")) {
      const asked = new URLSearchParams(link.search);
      asked.set("target_time", local(chosen));
      link.search = asked;
    }
    localize(part);
    part.hidden = false;
  }
  /* another period of the timeline keeps the values of the form */
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-span]");
    if (!link) return;
    const asked = new URLSearchParams(link.search);
    for (const [name, value] of new FormData(link.closest("form"))) if (asked.has(name)) asked.set(name, value);
    link.search = asked;
  });
  function bindAll() {
    document.querySelectorAll("form").forEach(bind);
  }

  /* details that were opened stay open when their part of the page is replaced */
  const open = new Map();
  document.addEventListener("toggle", (event) => {
    if (event.target.id) open.set(event.target.id, event.target.open);
  }, true);
  /* a part that is replaced right after the click has no toggle event */
  document.addEventListener("click", (event) => {
    const details = event.target.closest("summary")?.parentElement;
    if (details?.id) open.set(details.id, !details.open);
  });
  function reopen(root) {
    for (const details of root.querySelectorAll("details[id]")) {
      if (open.has(details.id)) details.open = open.get(details.id);
    }
  }

  /* live updates: an event names the services that changed, and the parts that show them are fetched again */
  const banner = document.getElementById("offline");
  let source = null;
  let seen = banner ? banner.dataset.seen : ""; /* the version of what the page shows; empty once a connection was lost */
  function refresh(ids) {
    for (const part of document.querySelectorAll("[data-live]")) {
      const wanted = part.dataset.live;
      if (ids === "*" || wanted === "*" || ids.split(" ").includes(wanted)) window.htmx.trigger(part, "refresh");
    }
  }
  /* a page that nobody sees has no connection: over HTTP/1.1 a browser opens six, for all pages of a server together */
  function connect() {
    if (source || !banner || document.hidden) return;
    source = new EventSource("/console/events?seen=" + seen);
    seen = "";
    source.addEventListener("hello", (event) => {
      banner.hidden = true;
      if (event.data === "*") refresh("*");
    });
    source.addEventListener("changed", (event) => refresh(event.data));
    source.onerror = () => {
      banner.hidden = false;
      disconnect();
      /* where the session has ended, the answer leads to the page for signing in */
      window.htmx.ajax("GET", "/console/notifications/count", { swap: "none" }).catch(() => {});
      setTimeout(connect, 1000);
    };
  }
  function disconnect() {
    if (source) source.close();
    source = null;
  }
  /* an element replaced between press and release gets no click: a live update waits for the release */
  let pressed = false;
  const delayed = new Set();
  document.addEventListener("pointerdown", () => { pressed = true; });
  function released() {
    pressed = false;
    setTimeout(() => {
      for (const part of delayed) window.htmx.trigger(part, "refresh");
      delayed.clear();
    });
  }
  for (const name of ["pointerup", "pointercancel", "dragend"]) document.addEventListener(name, released);
  document.addEventListener("htmx:beforeSwap", (event) => {
    if (event.detail.xhr.status === 404 && event.detail.target !== document.body) { /* what the page shows was deleted: the reloaded page says so */
      event.detail.shouldSwap = false;
      location.reload();
    } else if (pressed && event.detail.target.dataset.live) {
      event.detail.shouldSwap = false;
      delayed.add(event.detail.target);
    }
  });
  document.addEventListener("visibilitychange", () => { if (document.hidden) disconnect(); else connect(); });
  window.addEventListener("pagehide", disconnect);
  window.addEventListener("pageshow", connect);

  /* the menu of projects closes as menus do */
  const menu = document.querySelector("details.projects");
  document.addEventListener("click", (event) => { if (menu && !menu.contains(event.target)) menu.open = false; });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !menu?.open) return;
    menu.open = false;
    menu.querySelector("summary").focus();
  });

  /* the confirmation of a change is shown once, not when the page is opened again */
  const address = new URL(location.href);
  if (address.searchParams.has("done")) {
    address.searchParams.delete("done");
    history.replaceState(history.state, "", address);
  }

  document.addEventListener("htmx:afterSettle", () => { localize(document); reopen(document); bindAll(); offer(); });
  localize(document);
  bindAll();
  document.querySelector("[aria-invalid=true]")?.focus();
  setInterval(() => localize(document), 10000);
})();
