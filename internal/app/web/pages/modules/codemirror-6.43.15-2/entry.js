import { EditorState } from "@codemirror/state";
import { EditorView, keymap, lineNumbers, highlightActiveLine, highlightActiveLineGutter, drawSelection } from "@codemirror/view";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { autocompletion, completionKeymap } from "@codemirror/autocomplete";
import { lintGutter, setDiagnostics } from "@codemirror/lint";
import { syntaxHighlighting, HighlightStyle, indentOnInput, bracketMatching, foldGutter } from "@codemirror/language";
import { searchKeymap, highlightSelectionMatches } from "@codemirror/search";
import { tags } from "@lezer/highlight";

// What begins a step of each kind, and keys whose mappings have keys of their own.
const kinds = { command: "command", commands: "command", plugins: "command", wait: "wait", block: "block", input: "input", trigger: "trigger", group: "group" };

// read returns the indentation of a line's key, the key, and whether the line begins an item of a list.
function read(text) {
  const [, space, dash, key] = text.match(/^(\s*)((?:-\s+)*)([A-Za-z_]*)/);
  return { indent: space.length + dash.length, outer: space.length, item: dash !== "", key, blank: !text.trim() || text.trim().startsWith("#") };
}

// place returns where a line is: the names of keys around it, from the inside, and the keys beside it.
function place(doc, number, indent) {
  const around = [], beside = [];
  let level = indent;
  let first = read(doc.line(number).text).item;
  for (let n = number - 1; n > 0; n--) {
    const line = read(doc.line(n).text);
    if (line.blank) continue;
    if (line.indent === level && !first) {
      if (!around.length) beside.push(line.key);
      if (line.item) { level = line.outer; first = true; }
    } else if (line.indent < level || (first && line.indent === level && !line.item)) {
      around.push(line.key);
      level = line.indent;
      first = line.item;
      if (first) { level = line.outer; }
    }
  }
  for (let n = number + 1; n <= doc.lines; n++) {
    const line = read(doc.line(n).text);
    if (line.blank) continue;
    if (line.indent < indent || line.item) break;
    if (line.indent === indent) beside.push(line.key);
  }
  return { around, beside };
}

// completions returns a source of the keys that the server knows, and of their usual values.
function completions(keys) {
  const every = new Map(Object.values(keys).flat().map((k) => [k.name, k]));
  const ofSteps = new Map(["command", "wait", "block", "input", "trigger", "group"].flatMap((kind) => (keys[kind] || []).map((k) => [k.name, k])));
  const offer = (list) => [...list].map((k) => ({ label: k.name, type: "property", detail: k.text, apply: k.name + ": " }));
  return (context) => {
    const word = context.matchBefore(/[A-Za-z_]*/);
    const line = context.state.doc.lineAt(context.pos);
    const before = line.text.slice(0, word.from - line.from);
    if (word.from === word.to && !context.explicit) return null;
    const value = before.match(/^\s*(?:-\s+)*([a-z_]+):\s+$/);
    if (value) {
      const values = every.get(value[1])?.values;
      return values ? { from: word.from, options: values.map((label) => ({ label, type: "constant" })) } : null;
    }
    if (!/^\s*(-\s+)*$/.test(before)) return null;
    const { around, beside } = place(context.state.doc, line.number, before.length);
    let list;
    if (before.length === 0) list = keys.pipeline;
    else if (around[0] === "steps") {
      const kind = kinds[beside.find((key) => kinds[key])];
      list = kind ? keys[kind] : ofSteps.values();
    } else list = keys[around[0]] && !kinds[around[0]] ? keys[around[0]] : null;
    if (!list) return null;
    const missing = [...list].filter((k) => !beside.includes(k.name));
    return missing.length ? { from: word.from, options: offer(missing) } : null;
  };
}

// Colors come from the page, so that they follow its theme.
const style = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--editor-key)" },
  { tag: [tags.string, tags.content], color: "var(--editor-text)" },
  { tag: tags.comment, color: "var(--muted)", fontStyle: "italic" },
  { tag: [tags.number, tags.bool, tags.null, tags.keyword, tags.meta], color: "var(--editor-value)" },
]);

const theme = EditorView.theme({
  "&": { fontSize: ".9rem", color: "var(--text)", backgroundColor: "transparent" },
  ".cm-content": { fontFamily: "var(--mono)", minHeight: "14rem", caretColor: "var(--text)" },
  ".cm-gutters": { backgroundColor: "transparent", color: "var(--muted)", border: "none" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--sunken)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--accent-soft) !important" },
  ".cm-tooltip": { backgroundColor: "var(--surface)", color: "var(--text)", border: "1px solid var(--line)" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--on-accent)" },
  ".cm-completionDetail": { color: "var(--muted)", fontStyle: "normal", marginLeft: "1em" },
  ".cm-tooltip-autocomplete ul li[aria-selected] .cm-completionDetail": { color: "var(--on-accent)" },
  ".cm-panels": { backgroundColor: "var(--surface)", color: "var(--text)" },
  "&.cm-focused": { outline: "none" },
});

// createEditor shows an editor in a shadow root, where its style sheets do not need inline styles.
export function createEditor(parent, text, { label, changed, keys = {} }) {
  const root = parent.attachShadow({ mode: "open" });
  const view = new EditorView({
    root, parent: root,
    state: EditorState.create({ doc: text, extensions: [
      EditorView.lineWrapping, lineNumbers(), foldGutter(), lintGutter(), history(), drawSelection(), indentOnInput(), bracketMatching(), highlightActiveLine(), highlightActiveLineGutter(), highlightSelectionMatches(),
      yaml(), autocompletion({ override: [completions(keys)] }), syntaxHighlighting(style), theme,
      EditorView.contentAttributes.of({ "aria-label": label }), EditorState.tabSize.of(2),
      keymap.of([...defaultKeymap, ...historyKeymap, ...completionKeymap, ...searchKeymap]),
      EditorView.updateListener.of((u) => { if (u.docChanged) changed(u.state.doc.toString()); }),
    ] }),
  });
  return {
    view,
    diagnose(errors, warnings) {
      const at = (p, severity) => {
        const line = view.state.doc.line(Math.min(Math.max(p.line, 1), view.state.doc.lines));
        const from = Math.min(line.from + Math.max(p.column - 1, 0), line.to);
        return { from, to: Math.max(from, line.to), severity, message: p.message };
      };
      const all = [...errors.map((p) => at(p, "error")), ...warnings.map((p) => at(p, "warning"))].sort((a, b) => a.from - b.from);
      view.dispatch(setDiagnostics(view.state, all));
    },
  };
}
