// One request: as a line for a shell, and sent from here.

import { el } from "./dom.js";

// What was typed is kept in memory and nowhere else: tokens by security scheme, and values of path
// parameters by name, because the next operation mostly wants the same ones.
export const tokens = { accessToken: "", agentToken: "" };
export const pathValues = {};

const schemes = { accessToken: { word: "Bearer", variable: "TOKEN" }, agentToken: { word: "Token", variable: "AGENT_TOKEN" } };

// The server is where the page came from, whatever it calls itself.
const base = new URL(".", location.href).href.replace(/\/$/, "");

const maxShown = 200_000;
const shownHeaders = ["link", "x-request-id", "ratelimit-limit", "ratelimit-remaining", "retry-after"];

// urlOf fills in the parameters; path parameters without a value stay as they are in the document.
export function urlOf(operation, values) {
  const path = operation.path.replace(/\{([a-z_]+)\}/g, (whole, name) => encodeURIComponent(pathValues[name] ?? "") || whole);
  const query = new URLSearchParams();
  for (const parameter of operation.parameters.filter((p) => p.in === "query")) {
    const value = values[parameter.name];
    if (!value) continue;
    const parts = parameter.schema?.type === "array" ? value.split(",").map((part) => part.trim()) : [value];
    parts.forEach((part) => query.append(parameter.name, part));
  }
  const search = query.toString();
  return base + path + (search ? "?" + search : "");
}

// missing lists the path parameters that have no value yet.
export function missing(operation) {
  return operation.parameters.filter((p) => p.in === "path" && !pathValues[p.name]).map((p) => p.name);
}

// curl writes the request for a shell. The token is shown as a variable, and filled in for copying.
export function curl(operation, values, body, fillIn) {
  const method = operation.method === "GET" ? "" : `-X ${operation.method} `;
  const lines = [`curl ${method}${quote(urlOf(operation, values))}`];
  const { word, variable } = schemes[operation.scheme] ?? {};
  const token = tokens[operation.scheme];
  if (word) lines.push("-H " + (token && fillIn ? quote(`Authorization: ${word} ${token}`) : `"Authorization: ${word} $${variable}"`));
  if (body) lines.push("-H 'Content-Type: application/json'", "-d " + quote(body));
  return lines.join(" \\\n  ");
}

function quote(text) {
  return "'" + text.replaceAll("'", `'\\''`) + "'";
}

// copy puts text on the clipboard, also where the page is served without TLS.
export async function copy(text) {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(text);
    return;
  }
  const area = el("textarea", { class: "offscreen", "aria-hidden": "true" });
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  if (!done) throw new Error("the browser refused");
}

// send makes a GET request and returns what a person wants to see of the answer.
export async function send(operation, values) {
  const { word } = schemes[operation.scheme] ?? {};
  const token = tokens[operation.scheme];
  const begun = performance.now();
  const response = await fetch(urlOf(operation, values), {
    headers: word && token ? { Authorization: `${word} ${token}` } : {},
    credentials: "omit",
    cache: "no-store",
    signal: AbortSignal.timeout(30_000),
  });
  const text = await response.text();
  return {
    ok: response.ok,
    status: `${response.status} ${response.statusText}`.trim(),
    took: Math.round(performance.now() - begun),
    headers: shownHeaders.filter((name) => response.headers.has(name)).map((name) => `${name}: ${response.headers.get(name)}`),
    body: pretty(text).slice(0, maxShown),
    cut: text.length > maxShown,
  };
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
