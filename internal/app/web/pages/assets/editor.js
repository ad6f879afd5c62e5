// Checks the steps of a pipeline on the server while they are entered, shows errors at their lines and a preview
// of the steps, and turns the text area into an editor if that can be loaded.
const section = document.querySelector("[data-check]");
const area = section.querySelector("textarea.code");
const result = section.querySelector("[data-result]");
const state = result.querySelector(".step-state");
const list = result.querySelector(".step-list");
const listeners = [];

function show(answer) {
  result.hidden = false;
  const problem = (p) => `Line ${p.line}: ${p.message}`;
  state.classList.toggle("bad", answer.errors.length > 0);
  if (answer.errors.length) state.textContent = answer.errors.map(problem).join("\n");
  else state.textContent = [`${answer.steps.length} ${answer.steps.length === 1 ? "step" : "steps"}, no errors`, ...answer.warnings.map(problem)].join("\n");
  list.replaceChildren(...answer.steps.map((step) => {
    const item = document.createElement("li");
    const kind = document.createElement("span");
    kind.className = "kind";
    kind.textContent = step.kind;
    item.append(kind, step.label);
    if (step.depth) item.className = "inner";
    return item;
  }));
  for (const listener of listeners) listener(answer);
}

let number = 0;
async function check(text) {
  const mine = ++number;
  try {
    const response = await fetch(section.dataset.check, { method: "POST", body: new URLSearchParams({ configuration: text }) });
    if (response.ok && mine === number) show(await response.json());
  } catch {
    // The server checks again when the form is sent.
  }
}

let timer;
function later() {
  clearTimeout(timer);
  timer = setTimeout(() => check(area.value), 300);
}

area.addEventListener("input", later);
check(area.value);

import("./modules/codemirror-6.43.15-2/editor.js").then(({ createEditor }) => {
  const place = document.createElement("div");
  place.className = "editor";
  area.before(place);
  const label = document.querySelector(`label[for="${area.id}"]`).textContent;
  const editor = createEditor(place, area.value, { label, keys: JSON.parse(section.dataset.keys), changed(text) { area.value = text; later(); } });
  area.hidden = true;
  area.required = false;
  listeners.push((answer) => editor.diagnose(answer.errors, answer.warnings));
  check(area.value);
}).catch(() => {}); // the text area works too
