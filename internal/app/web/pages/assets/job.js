// Shows any part of a log (log.go). The page has only the lines around the visible ones: a spacer has the height of
// the whole log, and a layer with the visible rows moves along. Lines come from the server in chunks, of which the
// last used are kept, so that memory does not grow with the log.
(() => {
  "use strict";

  const viewer = document.getElementById("viewer");
  if (!viewer) return;
  const page = document.querySelector("[data-live]");
  const box = viewer.querySelector(".lines");
  const spacer = box.querySelector("[data-spacer]");
  const layer = box.querySelector("[data-layer]");
  const by = (name) => viewer.querySelector(`[data-${name}]`);

  const chunk = 200, keep = 40, tallest = 8e6; // browsers limit the height of an element
  const state = { lines: +viewer.dataset.lines, generation: 0, ended: viewer.dataset.ended === "true", follow: false, from: -1, to: -1, error: -1 };
  let chunks = new Map(); // rows by the number of their chunk, the last used at the end
  let sections = [], folded = new Set(), shown = []; // shown: visible ranges of lines, as {at, line, count}
  let visible = state.lines;
  let matches = null, current = -1, query = "";
  let rowHeight = 0, generationKnown = false;

  // Settings stay in the browser.
  const setting = (name, value) => {
    try {
      if (value === undefined) return localStorage.getItem("log-" + name);
      localStorage.setItem("log-" + name, value);
    } catch { /* without storage settings last as long as the page */ }
    return null;
  };
  const toggle = (name, on, then) => {
    const button = by(name);
    const set = (is) => {
      button.setAttribute("aria-pressed", is);
      box.classList.toggle(name, is);
      then?.(is);
      render(true);
    };
    button.addEventListener("click", () => {
      const is = button.getAttribute("aria-pressed") !== "true";
      setting(name, is ? "1" : "0");
      set(is);
    });
    if (on) set(true);
  };

  // Lines and their places. Folded sections show only their heading.
  const arrange = () => {
    shown = [];
    let line = 0, at = 0;
    const add = (to) => {
      if (to > line) shown.push({ at, line, count: to - line });
      at += Math.max(0, to - line);
      line = Math.max(line, to);
    };
    for (const s of sections) {
      if (!folded.has(s.line)) continue;
      add(Math.min(s.line + 1, state.lines));
      line = Math.max(line, Math.min(s.end, state.lines));
    }
    add(state.lines);
    visible = at;
  };
  const find = (list, test) => {
    let low = 0, high = list.length;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (test(list[middle])) low = middle; else high = middle;
    }
    return list[low];
  };
  const lineAt = (place) => {
    const range = find(shown, (r) => r.at <= place);
    return range ? range.line + place - range.at : place;
  };
  const placeOf = (line) => {
    const range = find(shown, (r) => r.line <= line);
    return range ? range.at + Math.min(line - range.line, range.count - 1) : 0;
  };
  const sectionOf = (line) => {
    const s = find(sections, (one) => one.line <= line);
    return s && s.line <= line && line < s.end ? s : null;
  };

  // Chunks
  const put = (from, rows) => {
    for (let i = 0; i < rows.length; i++) {
      const number = Math.floor((from + i) / chunk);
      let one = chunks.get(number);
      if (!one) chunks.set(number, one = []);
      one[(from + i) % chunk] = rows[i];
    }
    while (chunks.size > keep) chunks.delete(chunks.keys().next().value);
  };
  const row = (line) => chunks.get(Math.floor(line / chunk))?.[line % chunk];
  const pending = new Set();
  const load = async (number) => {
    if (pending.has(number)) return;
    pending.add(number);
    try {
      const answer = await fetch(`${viewer.dataset.path}/rows?from=${number * chunk}&count=${chunk}`);
      if (answer.ok) {
        const part = await answer.json();
        chunks.delete(number);
        put(part.from, part.rows);
        grow(part);
      }
    } finally {
      pending.delete(number);
      render(true);
    }
  };
  const touch = (number) => {
    const one = chunks.get(number);
    if (one) {
      chunks.delete(number);
      chunks.set(number, one);
    }
  };
  // grow takes over how long the log is now.
  const grow = (part) => {
    if (generationKnown && part.generation !== state.generation) {
      chunks = new Map();
      sections = [];
      folded.clear();
    }
    generationKnown = true;
    const more = part.lines !== state.lines;
    Object.assign(state, { lines: part.lines, generation: part.generation, ended: part.ended });
    by("size").textContent = `${part.size}, ${part.lines} ${part.lines === 1 ? "line" : "lines"}`;
    by("nothing").hidden = part.lines > 0;
    if (more && sections.length) sections[sections.length - 1].end = state.lines;
    arrange();
  };

  // Rendering
  const element = (line) => {
    const html = row(line);
    const holder = document.createElement("template");
    if (!html) {
      holder.innerHTML = `<div class="row"><span class="n">${line + 1}</span><span class="t waits">…</span></div>`;
      return holder.content.firstElementChild;
    }
    holder.innerHTML = html;
    const one = holder.content.firstElementChild;
    if (line === state.error) one.classList.add("failure");
    if (line >= state.from && line <= state.to) one.classList.add("on");
    if (matches?.set.has(line)) one.classList.add(matches.lines[current] === line ? "now" : "match");
    colors(one);
    const time = one.querySelector("time");
    if (time && box.classList.contains("times")) {
      const at = new Date(time.dateTime);
      time.textContent = at.toLocaleTimeString([], { hour12: false });
      time.title = at.toLocaleString();
    }
    if (one.classList.contains("heading")) heading(one, line);
    return one;
  };
  const heading = (one, line) => {
    const s = sections.find((other) => other.line === line);
    if (!s || s.end <= line + 1) return;
    const button = document.createElement("button");
    const open = !folded.has(line);
    button.type = "button";
    button.className = "fold";
    button.textContent = open ? "▾" : "▸";
    button.setAttribute("aria-expanded", open);
    button.setAttribute("aria-label", `Section from line ${line + 1}`);
    button.dataset.section = line;
    one.querySelector(".t").before(button);
    if (s.took) {
      const took = document.createElement("span");
      took.className = "took";
      took.textContent = s.took;
      one.append(took);
    }
  };
  // Exact colors that can be read on the ground of the log; the others keep the nearest color of the palette.
  const light = (hex) => {
    const part = (i) => {
      const v = parseInt(hex.slice(i, i + 2), 16) / 255;
      return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    };
    return 0.2126 * part(0) + 0.7152 * part(2) + 0.0722 * part(4);
  };
  const colors = (one) => {
    for (const e of one.querySelectorAll("[data-fg]")) {
      if (!e.dataset.bg && light(e.dataset.fg) > 0.23) e.style.color = "#" + e.dataset.fg;
    }
    for (const e of one.querySelectorAll("[data-bg]:not([data-fg])")) {
      e.style.background = "#" + e.dataset.bg;
      e.style.color = light(e.dataset.bg) > 0.18 ? "#15171f" : "#ffffff";
    }
  };
  let first = -1, count = -1, waiting = false;
  const height = () => rowHeight || 20;
  const measure = () => {
    const one = layer.querySelector(".row .n");
    if (!rowHeight && one) rowHeight = one.getBoundingClientRect().height;
  };
  const range = () => Math.max(1, visible * height() - box.clientHeight);
  const scale = () => Math.max(1, visible * height() / tallest); // lines per row of scrolling, for very long logs
  const atEnd = () => box.scrollTop + box.clientHeight >= box.scrollHeight - 3;
  const render = (force) => {
    const total = Math.min(tallest, Math.max(visible * height(), box.clientHeight));
    spacer.style.height = total + "px";
    const rows = Math.ceil(box.clientHeight / height()) + 6;
    const end = atEnd() || state.follow;
    const exact = end ? Math.max(0, visible - rows) : scale() > 1 ? box.scrollTop / (total - box.clientHeight) * (range() / height()) : box.scrollTop / height();
    const from = Math.min(Math.max(0, Math.floor(exact)), Math.max(0, visible - 1));
    const n = Math.min(rows, visible - from);
    if (!force && from === first && n === count) return;
    const lines = Array.from({ length: n }, (_, i) => lineAt(from + i));
    for (const number of new Set(lines.map((line) => Math.floor(line / chunk)))) {
      touch(number);
      if (lines.some((line) => Math.floor(line / chunk) === number && !row(line))) load(number);
    }
    const focused = document.activeElement?.dataset?.section;
    layer.replaceChildren(...lines.map(element));
    if (!rowHeight && n > 0) {
      measure();
      if (rowHeight) return render(true);
    }
    if (focused !== undefined) layer.querySelector(`[data-section="${focused}"]`)?.focus({ preventScroll: true });
    const top = end ? Math.max(0, total - layer.offsetHeight) : Math.min(box.scrollTop - (exact - from) * height(), Math.max(0, total - layer.offsetHeight));
    layer.style.transform = `translateY(${Math.max(0, top)}px)`;
    if (end && state.follow) box.scrollTop = box.scrollHeight;
    first = from;
    count = n;
    mark();
  };
  const mark = () => {
    if (!window.Highlight || !CSS.highlights) return;
    CSS.highlights.delete("found");
    if (!query || !matches) return;
    const ranges = [], wanted = query.toLowerCase();
    for (const text of layer.querySelectorAll(".t")) {
      const nodes = document.createTreeWalker(text, NodeFilter.SHOW_TEXT);
      for (let node = nodes.nextNode(); node; node = nodes.nextNode()) {
        const lower = node.data.toLowerCase();
        if (lower.length !== node.data.length) continue;
        for (let i = lower.indexOf(wanted); i >= 0; i = lower.indexOf(wanted, i + wanted.length)) {
          const found = new Range();
          found.setStart(node, i);
          found.setEnd(node, i + wanted.length);
          ranges.push(found);
        }
      }
    }
    CSS.highlights.set("found", new Highlight(...ranges));
  };

  // go scrolls to a line, and opens its section.
  const go = (line) => {
    const s = sectionOf(line);
    if (s && s.line !== line && folded.delete(s.line)) arrange();
    setFollow(false);
    const place = placeOf(Math.min(line, state.lines - 1));
    const top = Math.max(0, (place - Math.floor(box.clientHeight / height() / 3)) * height());
    spacer.style.height = Math.min(tallest, Math.max(visible * height(), box.clientHeight)) + "px";
    box.scrollTop = scale() > 1 ? top / range() * (box.scrollHeight - box.clientHeight) : top;
    render(true);
  };
  const setFollow = (on) => {
    state.follow = on;
    by("follow").setAttribute("aria-pressed", on);
    if (on) {
      render(true);
      box.scrollTop = box.scrollHeight;
      render(true);
    }
  };

  // #L12 and #L12-L20
  const named = () => {
    const m = /^#L(\d+)(?:-L?(\d+))?$/.exec(location.hash);
    state.from = m ? Math.min(+m[1], +(m[2] || m[1])) - 1 : -1;
    state.to = m ? Math.max(+m[1], +(m[2] || m[1])) - 1 : -1;
    return !!m;
  };
  box.addEventListener("click", (event) => {
    const link = event.target.closest("a.n");
    const button = event.target.closest(".fold");
    if (link) {
      event.preventDefault();
      const line = +link.textContent;
      const range = event.shiftKey && state.from >= 0 ? `#L${Math.min(line, state.from + 1)}-L${Math.max(line, state.to + 1)}` : `#L${line}`;
      history.replaceState(null, "", range);
      named();
      render(true);
    } else if (button) {
      const line = +button.dataset.section;
      if (!folded.delete(line)) folded.add(line);
      setFollow(false);
      arrange();
      render(true);
    }
  });
  addEventListener("hashchange", () => { if (named()) go(state.from); });

  // Search
  const step = (by) => {
    if (!matches?.lines.length) return;
    current = (current + by + matches.lines.length) % matches.lines.length;
    report();
    go(matches.lines[current]);
  };
  const report = () => {
    const found = by("found");
    found.textContent = !matches ? "" : matches.total === 0 ? "no match" : `${current + 1} of ${matches.total}`;
    by("previous").hidden = by("next").hidden = !matches?.lines.length;
  };
  const search = async () => {
    const wanted = viewer.querySelector("#log-search").value.trim();
    if (wanted === query && matches) return step(1);
    query = wanted;
    matches = null;
    current = -1;
    report();
    if (!wanted) return render(true);
    by("found").textContent = "searching";
    const answer = await fetch(`${viewer.dataset.path}/search?q=${encodeURIComponent(wanted)}`);
    if (query !== wanted) return;
    if (!answer.ok) {
      by("found").textContent = "search failed";
      return;
    }
    matches = await answer.json();
    matches.set = new Set(matches.lines);
    const here = lineAt(Math.max(0, first));
    current = Math.max(0, matches.lines.findIndex((line) => line >= here));
    report();
    if (matches.lines.length) go(matches.lines[current]);
    else render(true);
  };
  viewer.querySelector(".log-search").addEventListener("submit", (event) => {
    event.preventDefault();
    search();
  });
  by("previous").addEventListener("click", () => step(-1));
  by("next").addEventListener("click", () => step(1));

  // Outline
  const outline = async (opened) => {
    const answer = await fetch(viewer.dataset.path + "/outline");
    if (!answer.ok) return;
    const found = await answer.json();
    const known = new Map(sections.map((s) => [s.line, true]));
    sections = found.sections;
    state.error = found.error;
    by("error").hidden = found.error < 0;
    by("fold").hidden = sections.length < 2;
    if (opened) {
      // Sections of long logs are folded as their headings say, except the last one and the one with the failure.
      sections.forEach((s, i) => {
        const matters = i === sections.length - 1 || (found.error >= s.line && found.error < s.end) || (state.from >= s.line && state.from < s.end);
        if (!known.has(s.line) && !s.open && !matters && state.ended && state.lines > 100) folded.add(s.line);
      });
    }
    const line = lineAt(Math.max(0, first));
    arrange();
    if (state.from >= 0) go(state.from);
    else if (opened && state.ended && failed() && found.error >= 0) go(found.error);
    else if (state.follow || first < 0) setFollow(state.follow);
    else go(line);
  };
  const failed = () => document.querySelector("[data-state]")?.dataset.state === "bad";
  by("error").addEventListener("click", () => go(state.error));
  by("fold").addEventListener("click", () => {
    const all = folded.size === 0;
    folded = new Set(all ? sections.map((s) => s.line) : []);
    by("fold").textContent = all ? "Unfold all" : "Fold all";
    arrange();
    render(true);
  });

  // Events of the server, passed on by live.js. A full outline comes when the job has ended.
  page.addEventListener("log", (event) => {
    const part = event.detail;
    const ended = state.ended;
    grow(part);
    put(part.from, part.rows);
    if (part.ended && !ended) outline(true);
    render(true);
  });

  // Start
  box.classList.add("scripted");
  for (const plain of viewer.querySelectorAll("[data-plain]")) plain.remove();
  by("switches").hidden = false;
  measure();
  put(+viewer.dataset.first, [...layer.children].map((one) => one.outerHTML));
  arrange();
  box.addEventListener("scroll", () => {
    if (state.follow && !atEnd()) {
      state.follow = false;
      by("follow").setAttribute("aria-pressed", "false");
    }
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      render(false);
    });
  }, { passive: true });
  addEventListener("resize", () => render(true));
  by("follow").addEventListener("click", () => setFollow(!state.follow));
  toggle("wrap", setting("wrap") !== "0");
  toggle("times", setting("times") === "1");
  const linked = named();
  if (linked) go(state.from);
  else if (!state.ended) setFollow(true);
  else if (new URLSearchParams(location.search).has("from")) go(+viewer.dataset.first);
  else {
    render(true);
    if (failed()) {
      box.scrollTop = box.scrollHeight;
      render(true);
    }
  }
  if (new URLSearchParams(location.search).get("q")) search();
  outline(true);
})();
