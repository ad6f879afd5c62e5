// What an operation shows when it is opened.

import { el, inline, prose } from "./dom.js";
import { copy, curl, missing, pathValues, send, tokens } from "./request.js";
import { example, schemaTree, typeName } from "./schema.js";

const credentials = { accessToken: "an access token", agentToken: "an agent token" };

// operationBody returns the inside of an operation.
export function operationBody(operation) {
  const state = { values: {}, body: firstBody(operation) }; // values of query parameters
  const request = requestPart(operation, state);
  const { description, needs } = describe(operation);
  return el("div", { class: "body" },
    prose(description),
    el("p", { class: "needs" }, "Needs ", credentials[operation.scheme] ?? "nothing", needs.flatMap((need) => [" · ", inline(need)])),
    parametersPart(operation, state, request.refresh),
    bodyPart(operation, state, request.refresh),
    request.node,
    responsesPart(operation));
}

// describe takes what the document says about scope and permission out of the description.
function describe(operation) {
  const isNeed = /^(Scope|Permission): (.*?)\.?$/s;
  const paragraphs = operation.description.split(/\n{2,}/);
  return {
    description: paragraphs.filter((paragraph) => !isNeed.test(paragraph)).join("\n\n"),
    needs: paragraphs.map((paragraph) => isNeed.exec(paragraph)).filter(Boolean).map(([, kind, name]) => `${kind.toLowerCase()} ${name}`),
  };
}

// firstBody is a body to begin with. A change begins with nothing, because what it names is changed.
function firstBody(operation) {
  if (!operation.bodySchema) return "";
  return operation.method === "PATCH" ? "{}" : JSON.stringify(example(operation.bodySchema), null, 2);
}

function parametersPart(operation, state, refresh) {
  if (operation.parameters.length === 0) return null;
  return part("Parameters", el("div", { class: "parameters" }, operation.parameters.map((parameter) => {
    const id = `${operation.id}-${parameter.in}-${parameter.name}`;
    const inPath = parameter.in === "path";
    const store = inPath ? pathValues : state.values;
    const input = el("input", {
      id, type: "text", autocomplete: "off", spellcheck: "false", "data-path": inPath ? parameter.name : null,
      inputmode: parameter.schema?.type === "integer" ? "numeric" : null,
      "aria-describedby": id + "-about",
      oninput: () => { store[parameter.name] = input.value.trim(); refresh(); },
    });
    input.value = store[parameter.name] ?? "";
    const about = [inPath ? "in the path" : "in the query", parameter.schema ? typeName(parameter.schema) : ""].filter(Boolean).join(", ");
    return el("div", { class: "parameter" },
      el("label", { for: id }, el("code", {}, parameter.name)),
      el("p", { class: "hint", id: id + "-about" }, about, parameter.description ? [" · ", inline(parameter.description)] : ""),
      input);
  })));
}

function bodyPart(operation, state, refresh) {
  if (!operation.bodySchema) return null;
  const id = operation.id + "-body";
  const area = el("textarea", {
    id, rows: Math.min(14, Math.max(3, state.body.split("\n").length)), spellcheck: "false", autocomplete: "off",
    oninput: () => { state.body = area.value.trim(); refresh(); },
  });
  area.value = state.body;
  return part(["Body ", el("small", {}, typeName(operation.bodySchema))],
    schemaTree(operation.bodySchema),
    el("label", { for: id, class: "hint" }, "JSON to send: take out, or put in, what you want."),
    area);
}

function requestPart(operation, state) {
  const line = el("code", {});
  const status = el("span", { class: "hint", role: "status" });
  const copyButton = el("button", { type: "button", onclick: copyLine }, "Copy");
  const answer = el("div", { class: "answer" });
  const sendButton = operation.method === "GET" ? el("button", { type: "button", class: "primary", onclick: tryIt }, "Send") : null;

  function refresh() {
    line.textContent = curl(operation, state.values, state.body, false);
    copyButton.textContent = tokens[operation.scheme] ? "Copy with token" : "Copy";
  }

  async function copyLine() {
    try {
      await copy(curl(operation, state.values, state.body, true));
      status.textContent = "Copied.";
    } catch {
      status.textContent = "Could not copy; select the text instead.";
    }
  }

  async function tryIt() {
    const without = missing(operation);
    if (without.length) {
      status.textContent = `Fill in ${without.join(", ")} first.`;
      document.getElementById(`${operation.id}-path-${without[0]}`)?.focus();
      return;
    }
    sendButton.disabled = true;
    status.textContent = "Waiting for the answer…";
    try {
      showAnswer(answer, await send(operation, state.values));
      status.textContent = "";
    } catch (error) {
      answer.replaceChildren();
      status.textContent = `No answer: ${error.message}`;
    } finally {
      sendButton.disabled = false;
    }
  }

  refresh();
  const node = part("Request",
    el("pre", { tabindex: "0", role: "group", "aria-label": "Request as a curl command" }, line),
    el("div", { class: "buttons" }, sendButton, copyButton, status),
    answer);
  node.addEventListener("refresh", refresh);
  return { node, refresh };
}

function showAnswer(node, got) {
  node.replaceChildren(
    el("p", { role: "status" }, el("strong", { class: got.ok ? "good" : "bad" }, got.status), el("span", { class: "muted" }, ` in ${got.took} ms`)),
    got.headers.length ? el("pre", { tabindex: "0", role: "group", "aria-label": "Response headers" }, got.headers.join("\n")) : "",
    got.body ? el("pre", { tabindex: "0", role: "group", "aria-label": "Response body" }, el("code", {}, got.body)) : "",
    got.cut ? el("p", { class: "hint" }, "The rest is not shown.") : "");
}

// responsesPart shows what an operation answers, statuses with the same error in one line.
function responsesPart(operation) {
  const lines = [];
  for (const [status, response] of operation.responses) {
    const schema = response.content?.["application/json"]?.schema;
    const success = status < 400;
    const words = [el("strong", { class: success ? "good" : "bad" }, status), `\u00a0${response.description ?? ""}`];
    const same = lines.find((line) => !success && !line.success && line.schema?.$ref === schema?.$ref);
    if (same) same.words.push(", ", ...words);
    else lines.push({ success, schema, words });
  }
  return part("Responses", el("ul", { class: "responses" }, lines.map(responseItem)));
}

function responseItem({ success, schema, words }) {
  const line = [words, schema ? [" ", el("span", { class: "type" }, typeName(schema))] : ""];
  const tree = schema ? schemaTree(schema) : null;
  if (!tree) return el("li", {}, el("div", { class: "line" }, line));
  return el("li", {}, el("details", { open: success }, el("summary", { class: "line" }, line), tree));
}

function part(title, ...content) {
  return el("section", { class: "part" }, el("h3", {}, title), content);
}
