// Command palette and keyboard shortcuts of all pages. Without this script the search is a page.
(() => {
  "use strict";

  const body = document.body;
  const mac = /Mac|iPhone|iPad/.test(navigator.platform);
  const make = (tag, attributes = {}, ...children) => {
    const e = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
    e.append(...children);
    return e;
  };
  const words = (e) => (e.getAttribute("aria-label") || e.textContent).replace(/\s+/g, " ").trim();
  const visible = (e) => e.checkVisibility({ visibilityProperty: true });

  // Single keys can be turned off, because speech input and shaking hands press them by accident.
  const stored = (value) => {
    try {
      if (value === undefined) return localStorage.getItem("single-keys") !== "off";
      localStorage.setItem("single-keys", value ? "on" : "off");
    } catch { /* without storage the choice lasts as long as the page */ }
    return value ?? true;
  };
  let singleKeys = stored();

  // What the page offers: its buttons, links that look like buttons, and what asks before it destroys something.
  const actions = () => [...document.querySelectorAll("main :is(button:not([type=button]), a.button, summary:is(.button, .danger, .new), [data-key])")]
    .filter((e) => visible(e) && words(e) && !e.closest("[role=search]")).slice(0, 40);

  // run does what a click does. What asks for confirmation still asks.
  const run = (e) => {
    if (e.tagName !== "SUMMARY") {
      e.focus();
      e.click();
      return;
    }
    e.parentElement.open = true;
    e.parentElement.scrollIntoView({ block: "nearest" });
    (e.parentElement.querySelector("input:not([type=hidden]), select, textarea, button") || e).focus();
  };

  const dialog = (label, ...children) => {
    const d = make("dialog", { class: "palette", "aria-label": label }, ...children);
    d.addEventListener("click", (event) => { if (event.target === d) d.close(); });
    d.addEventListener("close", () => d.remove());
    body.append(d);
    d.showModal();
    return d;
  };
  const open = () => document.querySelector("dialog[open]");

  // The palette is a combobox: the focus stays in the field, and the list has an active option.
  const palette = () => {
    if (open()) return;
    const input = make("input", {
      type: "text", role: "combobox", "aria-expanded": "true", "aria-controls": "palette-list", "aria-autocomplete": "list",
      "aria-label": "Search pipelines, builds, agents, pages and actions", placeholder: "Search, or do something on this page", autocomplete: "off", spellcheck: "false", maxlength: "200",
    });
    const list = make("div", { id: "palette-list", role: "listbox", "aria-label": "Results" });
    const status = make("p", { class: "offscreen", role: "status" });
    const d = dialog("Command palette", input, list, status,
      make("p", { class: "hint keys" }, make("kbd", {}, "↑"), make("kbd", {}, "↓"), " choose ", make("kbd", {}, "Enter"), " open ", make("kbd", {}, "Esc"), " close"));
    const offered = actions().map((e) => ({ title: words(e), key: e.dataset.key, run: () => { const now = e.isConnected ? e : actions().find((o) => words(o) === words(e)); if (now) run(now); } }));
    let found = [], active = -1, request = null, timer = 0;

    const activate = (i) => {
      const options = list.querySelectorAll("[role=option]");
      options[active]?.setAttribute("aria-selected", "false");
      active = options.length ? (i + options.length) % options.length : -1;
      const option = options[active];
      if (!option) return input.removeAttribute("aria-activedescendant");
      option.setAttribute("aria-selected", "true");
      option.scrollIntoView({ block: "nearest" });
      input.setAttribute("aria-activedescendant", option.id);
    };
    const choose = () => {
      const item = found[active];
      if (!item) return;
      d.close();
      if (item.run) item.run();
      else location.assign(item.path);
    };
    const show = (groups) => {
      found = [];
      const boxes = groups.filter((g) => g.items.length).map((group, n) => {
        const box = make("div", { role: "group", "aria-labelledby": "palette-group-" + n }, make("p", { class: "group-title", id: "palette-group-" + n, role: "presentation" }, group.title));
        for (const item of group.items) {
          const i = found.push(item) - 1;
          const option = make("div", { role: "option", id: "palette-" + i, "aria-selected": "false", class: item.class || "" }, make("span", { class: "title" }, item.title));
          if (item.about) option.append(make("span", { class: "muted" }, item.about));
          if (item.key) option.append(make("kbd", {}, item.key));
          option.addEventListener("mousemove", () => { if (active !== i) activate(i); });
          option.addEventListener("click", () => { activate(i); choose(); });
          box.append(option);
        }
        return box;
      });
      list.replaceChildren(...boxes);
      if (!boxes.length) list.append(make("div", { role: "option", "aria-disabled": "true", "aria-selected": "false", id: "palette-none", class: "muted" }, "Nothing found"));
      status.textContent = found.length === 1 ? "1 result" : found.length + " results";
      active = -1;
      if (found.length) activate(0);
    };
    const search = async () => {
      const text = input.value.trim();
      const here = { title: "On this page", items: offered.filter((a) => text.toLowerCase().split(/\s+/).every((w) => a.title.toLowerCase().includes(w))) };
      request?.abort();
      request = new AbortController();
      try {
        const query = new URLSearchParams({ q: text });
        if (pipeline) query.set("pipeline", pipeline);
        const response = await fetch(body.dataset.search + "?" + query, { headers: { Accept: "application/json" }, signal: request.signal });
        if (!response.ok) throw new Error(response.status);
        const { groups } = await response.json();
        show(text ? [...(groups || []), here] : [here, ...(groups || [])]);
      } catch (error) {
        if (error.name !== "AbortError") show([here]);
      }
    };
    input.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(search, 120);
    });
    input.addEventListener("keydown", (event) => {
      const move = { ArrowDown: active + 1, ArrowUp: active - 1 }[event.key];
      if (move !== undefined) activate(move);
      else if (event.key === "Enter") choose();
      else return;
      event.preventDefault();
    });
    show([{ title: "On this page", items: offered }]);
    search();
    input.focus();
  };

  // The pipeline of the page, whose builds are found first by their number.
  const path = location.pathname.slice(body.dataset.search.indexOf("/organizations")).split("/");
  const pipeline = path.length > 2 && path[1] !== "organizations" && path[1] !== "settings" ? decodeURIComponent(path[2]) : "";

  const places = () => [...document.querySelectorAll("a[data-go]")];
  const help = () => {
    if (open()) return;
    const rows = (list) => make("dl", { class: "facts short" }, ...list.flatMap(([keys, what]) => [make("dt", {}, ...keys.map((k) => make("kbd", {}, k))), make("dd", {}, what)]));
    const check = make("input", { type: "checkbox" });
    check.checked = singleKeys;
    check.addEventListener("change", () => { singleKeys = stored(check.checked); });
    const close = make("button", { type: "button" }, "Close");
    const here = actions().filter((e) => e.dataset.key).map((e) => [[e.dataset.key], words(e)]);
    const d = dialog("Keyboard shortcuts", make("h2", {}, "Keyboard shortcuts"),
      rows([[[mac ? "⌘" : "Ctrl", "K"], "Command palette"], [["/"], "Search"], [["?"], "This list"], [["j"], "Next in the list"], [["k"], "Previous in the list"],
        ...places().map((a) => [["g", a.dataset.go], words(a)])]),
      ...(here.length ? [make("h2", {}, "On this page"), rows(here)] : []),
      make("label", { class: "choice" }, check, make("span", {}, "Single-key shortcuts")), close);
    close.addEventListener("click", () => d.close());
    close.focus();
  };

  // j and k move through the links of a list.
  const rowsOfPage = () => [...document.querySelectorAll("main :is(.rows, .builds, .jobs, .files) > li")].filter(visible);
  const step = (by) => {
    const list = rowsOfPage().map((row) => [row, row.querySelector("a, summary")]).filter(([, link]) => link);
    const now = list.findIndex(([row]) => row.contains(document.activeElement));
    const next = list[now < 0 ? (by > 0 ? 0 : list.length - 1) : now + by];
    next?.[1].focus();
    next?.[0].scrollIntoView({ block: "nearest" });
  };

  // A field of the page for "/", or else the palette.
  const search = () => {
    const field = [...document.querySelectorAll("main [role=search] input[type=search]")].find(visible);
    if (!field) return palette();
    field.focus();
    field.select();
  };

  let going = 0;
  addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "k" && !event.target.closest?.(".cm-editor, .xterm, canvas")) {
      event.preventDefault();
      palette();
      return;
    }
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || !singleKeys || open() || event.isComposing) return;
    if (event.target.closest?.("input, select, textarea, [contenteditable=true], .cm-editor, .xterm, canvas")) return;
    const key = event.key;
    let act = null;
    if (Date.now() - going < 1500) {
      const place = places().find((a) => a.dataset.go === key);
      if (place) act = () => location.assign(place.href);
      going = 0;
    } else if (key === "g") act = () => { going = Date.now(); };
    else if (key === "/") act = search;
    else if (key === "?") act = help;
    else if (key === "j" || key === "k") act = () => step(key === "j" ? 1 : -1);
    else {
      const own = [...document.querySelectorAll(`[data-key="${CSS.escape(key)}"]`)].find(visible);
      if (own) act = () => run(own);
    }
    if (!act) return;
    event.preventDefault();
    act();
  });

  // Fields with suggestions ask the server for others while people type.
  addEventListener("input", (event) => {
    const field = event.target;
    if (!field.dataset?.suggest || !field.list) return;
    clearTimeout(field.suggesting);
    field.suggesting = setTimeout(async () => {
      const text = field.value;
      try {
        const response = await fetch(field.dataset.suggest + "&" + new URLSearchParams({ q: text }), { headers: { Accept: "application/json" } });
        if (!response.ok || text !== field.value) return;
        field.list.replaceChildren(...(await response.json()).map((o) => make("option", { value: o.value }, o.text)));
      } catch { /* what was suggested before stays */ }
    }, 150);
  });

  for (const link of document.querySelectorAll("[data-palette]")) {
    link.addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      palette();
    });
    const key = link.querySelector("kbd");
    key.textContent = mac ? "⌘K" : "Ctrl K";
    key.hidden = false;
  }
})();
