/* Conveniences for pictures over time: round times of the viewer's zone on their axes, and the values at a chosen time. */
(function () {
  "use strict";

  /* the marks of an axis are at round times of UTC: each moves to the nearest time that is as round in the viewer's zone */
  const DAY = 86400;
  const two = (n) => String(n).padStart(2, "0");
  function text(d, step, span) {
    if (step >= DAY) return d.toLocaleDateString("en-GB", span > 300 * DAY ? { month: "short", year: "numeric" } : { day: "numeric", month: "short" });
    return two(d.getHours()) + ":" + two(d.getMinutes()) + (step < 60 ? ":" + two(d.getSeconds()) : "");
  }
  function localize() {
    for (const mark of document.querySelectorAll("svg[data-step] [data-at]")) {
      const { first, last, step, left, right } = mark.closest("svg").dataset;
      const milli = step * 1000;
      const west = new Date(Number(mark.dataset.at)).getTimezoneOffset() * 60000;
      const at = Number(mark.dataset.at) + west - milli * Math.round(west / milli);
      const share = (at - first) / (last - first);
      const x = Number(left) + share * (right - left);
      mark.style.display = share < 0 || share > 1 ? "none" : "";
      if (mark.tagName === "text") {
        mark.setAttribute("x", x + "%");
        mark.textContent = text(new Date(at), step, (last - first) / 1000);
      } else for (const end of ["x1", "x2"]) mark.setAttribute(end, x + "%");
    }
  }

  /* all charts show their values at the time that is chosen in one of them; the table has the values */
  function show(charts, place) {
    const rows = charts.parentElement.querySelector("table.values").tBodies[0].rows;
    const [time, ...values] = rows[place].cells;
    const { first, last } = charts.querySelector("svg.rules").dataset;
    const x = place / Math.max(1, rows.length - 1) * 1000;
    charts.querySelectorAll(".chart").forEach((chart, number) => {
      const { textContent: value, dataset: { y } } = values[number];
      const [shown, when] = chart.querySelector(".reading").children;
      shown.textContent = value;
      when.resting ??= [...when.childNodes];
      when.textContent = "at " + time.textContent.slice(last - first > DAY * 1000 ? 5 : -5);
      chart.querySelector(".cursor").setAttribute("d", `M${x} 0V100`);
      chart.querySelector(".dot").setAttribute("d", y === undefined ? "" : `M${x} ${y}h0`);
      const range = chart.querySelector("input");
      range.value = place;
      range.setAttribute("aria-valuetext", `${time.textContent}: ${value}`);
    });
  }
  function rest(charts) {
    for (const chart of charts.querySelectorAll(".chart")) {
      const [shown, when] = chart.querySelector(".reading").children;
      shown.textContent = shown.dataset.last;
      if (when.resting) when.replaceChildren(...when.resting);
      for (const part of chart.querySelectorAll(".cursor, .dot")) part.removeAttribute("d");
    }
  }
  const rangeOf = (event) => event.target.closest?.(".chart input");
  for (const name of ["input", "focusin"]) {
    document.addEventListener(name, (event) => {
      const range = rangeOf(event);
      if (range) show(range.closest(".charts"), Number(range.value));
    });
  }
  document.addEventListener("pointermove", (event) => {
    const range = rangeOf(event);
    if (!range || event.pointerType === "touch") return;
    const box = range.getBoundingClientRect();
    const share = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
    show(range.closest(".charts"), Math.round(share * range.max));
  });
  for (const name of ["pointerout", "focusout"]) {
    document.addEventListener(name, (event) => {
      const range = rangeOf(event);
      if (range && (name === "focusout" || (event.pointerType === "mouse" && document.activeElement !== range))) rest(range.closest(".charts"));
    });
  }

  /* new samples are taken twice a minute; who reads a value is not disturbed */
  setInterval(() => {
    const part = document.getElementById("metrics");
    if (part && !document.hidden && !part.querySelector(".cursor[d]")) window.htmx.trigger(part, "refresh");
  }, 30000);

  document.addEventListener("htmx:afterSettle", localize);
  localize();
})();
