/* The SQL editor: Ctrl+Enter, and the statements of this tab, which only its own storage keeps. */
(function () {
  "use strict";
  const form = document.getElementById("editor");
  const sql = document.getElementById("sql");
  const history = document.getElementById("history");
  const name = "ramet-sql " + location.pathname;
  const most = 20;
  function kept() {
    try {
      return JSON.parse(sessionStorage.getItem(name)) || [];
    } catch {
      return [];
    }
  }
  function show() {
    const list = history.querySelector("ol");
    list.replaceChildren(...kept().map((text) => {
      const item = document.createElement("li");
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = text.length > 300 ? text.slice(0, 300) + "…" : text;
      button.addEventListener("click", () => { sql.value = text; sql.focus(); });
      item.append(button);
      return item;
    }));
    history.hidden = !list.children.length;
  }
  form.addEventListener("submit", (event) => {
    const text = sql.value.trim();
    if (!text || (event.submitter && event.submitter.value === "cancel")) return;
    try {
      sessionStorage.setItem(name, JSON.stringify([text, ...kept().filter((one) => one !== text)].slice(0, most)));
    } catch { /* the storage is full, or forbidden: no history */ }
  });
  sql.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    form.requestSubmit(form.querySelector("button[value=run]"));
  });
  show();
})();
