// The browsable API: reads the server's OpenAPI document and lists its operations by group.

import { el } from "./dom.js";
import { operationBody } from "./operation.js";
import { pathValues, tokens } from "./request.js";
import { useComponents } from "./schema.js";

const methods = ["get", "post", "put", "patch", "delete"];
const byId = (id) => document.getElementById(id);

try {
  const response = await fetch("openapi.json", { credentials: "omit" });
  if (!response.ok) throw new Error(`the server answered ${response.status}`);
  show(await response.json());
} catch (error) {
  const notice = byId("notice");
  notice.hidden = false;
  notice.textContent = `The API cannot be shown: ${error.message}. Load the page again.`;
}

function show(doc) {
  useComponents(doc.components?.schemas);
  byId("version").textContent = doc.info?.version ?? "";
  byId("about").textContent = doc.info?.description ?? "";
  const operations = operationsOf(doc);
  byId("agentTokenField").hidden = !operations.some((operation) => operation.scheme === "agentToken");
  const groups = (doc.tags ?? []).map((tag) => group(tag.name, operations.filter((operation) => operation.tag === tag.name)));
  byId("sections").replaceChildren(...groups.map((g) => g.section));
  byId("groups").replaceChildren(...groups.map((g) => g.link));
  byId("columns").hidden = false;
  useFilter(groups, operations.length);
  useTokens();
  followHash();
  addEventListener("hashchange", followHash);
}

// operationsOf flattens the document into what the page shows, in the order of its paths.
function operationsOf(doc) {
  return Object.entries(doc.paths ?? {}).flatMap(([path, item]) => methods.filter((method) => item[method]).map((method) => {
    const operation = item[method];
    return {
      id: operation.operationId,
      method: method.toUpperCase(),
      path,
      tag: operation.tags?.[0],
      summary: operation.summary ?? "",
      description: operation.description ?? "",
      parameters: operation.parameters ?? [],
      bodySchema: operation.requestBody?.content?.["application/json"]?.schema,
      responses: Object.entries(operation.responses ?? {}).sort(([a], [b]) => a - b),
      scheme: Object.keys(operation.security?.[0] ?? {})[0] ?? "",
    };
  }));
}

// group makes the section of one tag, and the link that leads to it.
function group(name, operations) {
  const id = "group-" + name.toLowerCase().replace(/[^a-z0-9]+/g, "-");
  const rows = operations.map((operation) => ({ node: row(operation), text: searchText(operation) }));
  return {
    rows,
    link: el("li", {}, el("a", { href: "#" + id }, name)),
    section: el("section", { class: "group", "aria-labelledby": id }, el("h2", { id, tabindex: "-1" }, name), el("div", { class: "list" }, rows.map((r) => r.node))),
  };
}

function searchText(operation) {
  return [operation.method, operation.path, operation.summary, operation.description, operation.tag].join(" ").toLowerCase();
}

// row makes one operation; its inside is made when it is first opened.
function row(operation) {
  const details = el("details", { class: "operation", id: operation.id },
    el("summary", {},
      el("span", { class: "method " + operation.method.toLowerCase() }, operation.method),
      el("span", { class: "what" }, el("span", { class: "summary" }, operation.summary), " ", pathLine(operation.path))));
  details.addEventListener("toggle", () => {
    if (details.open && details.children.length === 1) {
      details.append(operationBody(operation), el("p", { class: "permalink" }, el("a", { href: "#" + operation.id }, "Link to this operation")));
    }
    if (details.open) fillIn(details);
  });
  return details;
}

// pathLine lets a long path break after its slashes.
function pathLine(path) {
  const parts = path.split(/(?<=\/)|(?=\/)/).flatMap((part) => [part.startsWith("{") ? el("em", {}, part) : part, part === "/" ? el("wbr") : ""]);
  return el("code", { class: "path" }, parts);
}

// fillIn shows the values of path parameters that were typed in another operation, and brings its
// request up to date.
function fillIn(details) {
  for (const input of details.querySelectorAll("input[data-path]")) input.value = pathValues[input.dataset.path] ?? "";
  for (const part of details.querySelectorAll(".part")) part.dispatchEvent(new Event("refresh"));
}

function useFilter(groups, total) {
  const filter = byId("filter");
  const apply = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const { rows, section, link } of groups) {
      let any = false;
      for (const { node, text } of rows) {
        node.hidden = !words.every((word) => text.includes(word));
        if (!node.hidden) shown++;
        any ||= !node.hidden;
      }
      section.hidden = link.hidden = !any;
    }
    byId("count").textContent = shown === total ? `${total} operations` : `${shown} of ${total} operations`;
  };
  filter.addEventListener("input", apply);
  filter.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { filter.value = ""; apply(); }
  });
  addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea")) return;
    event.preventDefault();
    filter.focus();
  });
  apply();
}

function useTokens() {
  byId("tokens").open = matchMedia("(min-width: 45rem)").matches;
  for (const scheme of Object.keys(tokens)) {
    const input = byId(scheme);
    input.value = ""; // some browsers put back what was there before a reload
    input.addEventListener("input", () => {
      tokens[scheme] = input.value.trim();
      document.querySelectorAll("details.operation[open]").forEach(fillIn);
    });
  }
}

// followHash opens the operation that the address names.
function followHash() {
  const target = byId(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  if (target.matches("details.operation")) target.open = true;
  target.scrollIntoView();
}
