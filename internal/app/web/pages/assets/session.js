// Shows a shell (xterm.js) or a desktop (noVNC) of a running job.
const page = document.querySelector(".session");
const screen = document.getElementById("session-screen");
const state = document.getElementById("session-state");
const modules = page.dataset.modules;

const say = (text, ended) => {
  state.textContent = text;
  state.toggleAttribute("data-ended", Boolean(ended));
};

// The policy of the page allows no style elements, which xterm.js creates. Their rules become style sheets that are
// made by scripts, which it allows.
const allowStyles = () => {
  const create = document.createElement.bind(document);
  document.createElement = (name, options) => {
    const element = create(name, options);
    if (String(name).toLowerCase() === "style") {
      const sheet = new CSSStyleSheet();
      document.adoptedStyleSheets.push(sheet);
      Object.defineProperty(element, "textContent", { get: () => "", set: (text) => sheet.replaceSync(text) });
    }
    return element;
  };
};

const shell = async () => {
  allowStyles();
  const { Terminal } = await import(modules + "xterm-6.0.0/xterm.mjs");
  const { FitAddon } = await import(modules + "xterm-6.0.0/addon-fit.mjs");
  const terminal = new Terminal({ cursorBlink: true, scrollback: 5000, fontSize: 14 });
  const fit = new FitAddon();
  terminal.loadAddon(fit);
  terminal.open(screen);
  fit.fit();
  const size = () => JSON.stringify({ columns: terminal.cols, rows: terminal.rows });

  const address = new URL(page.dataset.path + "/shell/connect", location.href);
  address.protocol = address.protocol.replace("http", "ws");
  const socket = new WebSocket(address);
  socket.binaryType = "arraybuffer";
  let ended = false;
  const end = (text) => {
    if (!ended) say(text, true);
    ended = true;
  };
  socket.onopen = () => socket.send(size());
  socket.onmessage = ({ data }) => {
    if (typeof data !== "string") {
      if (!ended) say("Connected");
      terminal.write(new Uint8Array(data));
      return;
    }
    const { status, message } = JSON.parse(data);
    end(message ? "Session closed: " + message : "The shell exited with status " + status);
  };
  socket.onclose = () => end("Session closed: the connection was lost");
  const input = new TextEncoder();
  terminal.onData((text) => socket.readyState === WebSocket.OPEN && socket.send(input.encode(text)));
  terminal.onBinary((text) => socket.readyState === WebSocket.OPEN && socket.send(Uint8Array.from(text, (c) => c.charCodeAt(0))));
  terminal.onResize(() => socket.readyState === WebSocket.OPEN && socket.send(size()));
  new ResizeObserver(() => fit.fit()).observe(screen);
  terminal.focus();
};

const desktop = async () => {
  const { default: RFB } = await import(modules + "novnc-1.7.0/core/rfb.js");
  const response = await fetch(page.dataset.path + "/desktop", { method: "POST", headers: { Accept: "application/json" } });
  const opened = await response.json();
  if (!response.ok) {
    say("Session closed: " + opened.message, true);
    return;
  }
  const rfb = new RFB(screen, opened.endpoint, { wsProtocols: ["binary", "token." + opened.token], credentials: { password: opened.password } });
  rfb.scaleViewport = true;
  rfb.addEventListener("connect", () => say("Connected"));
  rfb.addEventListener("securityfailure", ({ detail }) => say("Session closed: " + (detail.reason || "the password was refused"), true));
  rfb.addEventListener("disconnect", () => state.hasAttribute("data-ended") || say("Session closed", true));
};

(page.dataset.kind === "ssh" ? shell() : desktop()).catch((error) => say("The session cannot be shown: " + error.message, true));
