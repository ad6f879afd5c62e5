// Keeps a page up to date with the events of the server (package live). Without this script the page
// shows what was there when it was loaded.
(() => {
  "use strict";

  const page = document.querySelector("[data-live]");
  if (!page) return;

  // An address such as /acme/hello/builds/1#JOB names a job; its log is at ?job=JOB.
  const named = location.hash.slice(1);
  const query = new URLSearchParams(location.search);
  const there = document.getElementById(named);
  if (page.matches(".build") && /^[0-9a-f-]{36}$/.test(named) && !query.has("job") && (!there || document.getElementById("open-" + named))) {
    location.replace("?job=" + named + "#" + named);
    return;
  }

  // become turns an element into another one and keeps the state of the reader: the focus, what was
  // opened, what was entered. Elements with an id stay the same element.
  const become = (old, now) => {
    if (old.hasAttribute("data-own")) return;
    for (const { name } of [...old.attributes]) {
      if (!now.hasAttribute(name) && !readers(old, name)) old.removeAttribute(name);
    }
    for (const { name, value } of [...now.attributes]) {
      if (old.getAttribute(name) !== value && !readers(old, name)) old.setAttribute(name, value);
    }
    let next = old.firstChild;
    for (const child of [...now.childNodes]) {
      const same = counterpart(old, next, child);
      if (!same) {
        old.insertBefore(child, next);
      } else {
        if (same === next) next = next.nextSibling;
        else old.insertBefore(same, next);
        if (same.nodeType === Node.ELEMENT_NODE) become(same, child);
        else if (same.nodeValue !== child.nodeValue) same.nodeValue = child.nodeValue;
      }
    }
    while (next) {
      const gone = next;
      next = next.nextSibling;
      gone.remove();
    }
  };

  const readers = (element, attribute) => (element.tagName === "DETAILS" && attribute === "open") || (element.matches("input, option") && ["value", "checked", "selected"].includes(attribute));

  // counterpart returns the child of an element that a new child is to be found in: the one with its id, or
  // without ids the next one, if it is of the same kind.
  const counterpart = (parent, next, child) => {
    if (child.id) {
      if (next && next.id === child.id) return next;
      return [...parent.children].find((other) => other.id === child.id && other.tagName === child.tagName) || null;
    }
    return next && !next.id && next.nodeName === child.nodeName ? next : null;
  };

  const parsed = (html) => {
    const template = document.createElement("template");
    template.innerHTML = html;
    return template.content;
  };

  // Annotations can have any id, but nothing of ours.
  const element = (id) => page.querySelector(`[data-part="${id}"]`);

  const parts = (list) => {
    const printed = element("job-log");
    for (const { id, html } of list) {
      const old = element(id);
      const now = parsed(html).firstElementChild;
      if (old && now) become(old, now);
    }
    // The log goes along with its job, when that has become an earlier attempt.
    const place = element("job-log");
    if (place && printed && place !== printed) place.replaceWith(printed);
    tick();
    const head = page.querySelector("[data-icon]");
    if (!head) return;
    const { title, icon } = head.dataset;
    if (title && document.title !== title) document.title = title;
    const shown = document.querySelector("link[rel=icon]");
    if (shown.getAttribute("href") !== icon) shown.setAttribute("href", icon);
  };

  // What a log has printed is kept in pieces, of which the first go when there is too much.
  const most = 5000;
  const log = (change) => {
    const at = element("job-log");
    const box = at && at.querySelector("[data-log]");
    if (!box) {
      page.dispatchEvent(new CustomEvent("log", { detail: change })); // the page of a job (job.js)
      return;
    }
    const settled = box.querySelector("[data-settled]");
    const screen = box.querySelector("[data-screen]");
    const follow = box.scrollHeight - box.scrollTop - box.clientHeight < 40;
    if (change.reset) settled.replaceChildren();
    if (change.settled) {
      const piece = document.createElement("div");
      piece.append(parsed(change.settled));
      settled.append(piece);
    }
    let dropped = false;
    while (settled.childElementCount > 1 && settled.querySelectorAll(".line").length > most) {
      settled.firstElementChild.remove();
      dropped = true;
    }
    screen.replaceChildren(parsed(change.screen));
    const earlier = at.querySelector("[data-earlier]");
    if (change.truncated || dropped) earlier.hidden = false;
    else if (change.reset) earlier.hidden = true;
    at.querySelector("[data-size]").textContent = change.size;
    at.querySelector("[data-nothing]").hidden = box.querySelector(".line") !== null;
    if (follow) box.scrollTop = box.scrollHeight;
  };

  const tick = () => {
    for (const time of document.querySelectorAll("time[data-since]")) {
      const s = Math.max(0, Math.floor((Date.now() - time.dataset.since) / 1000));
      const words = s < 60 ? s + "s" : s < 3600 ? Math.floor(s / 60) + "m " + (s % 60) + "s" : Math.floor(s / 3600) + "h " + (Math.floor(s / 60) % 60) + "m";
      if (time.textContent !== words) time.textContent = words;
    }
  };
  tick();
  setInterval(tick, 1000);

  const box = document.querySelector("[data-log]");
  if (box) box.scrollTop = box.scrollHeight;

  // A browser comes back by itself when the stream has ended, but not when it got no stream at all. Browsers
  // have few connections, so a hidden page closes its connection.
  let stream = null, again = 0, patience = 1000;
  const follow = () => {
    stream = new EventSource(page.dataset.live + "&seen=" + page.dataset.seen);
    stream.addEventListener("open", () => { patience = 1000; });
    stream.addEventListener("parts", (event) => {
      page.dataset.seen = event.lastEventId;
      parts(JSON.parse(event.data));
    });
    stream.addEventListener("log", (event) => log(JSON.parse(event.data)));
    stream.addEventListener("error", () => {
      if (stream.readyState !== EventSource.CLOSED) return;
      again = setTimeout(follow, patience);
      patience = Math.min(2 * patience, 60000);
    });
  };
  const leave = () => {
    clearTimeout(again);
    stream?.close();
    stream = null;
  };
  const attend = () => {
    leave();
    if (!document.hidden) follow();
  };
  attend();
  document.addEventListener("visibilitychange", attend);
  addEventListener("pagehide", leave);
  addEventListener("pageshow", (event) => { if (event.persisted) attend(); });
})();
