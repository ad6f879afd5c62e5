import { EditorState } from "@codemirror/state";
import { EditorView, keymap, lineNumbers, highlightActiveLine, highlightActiveLineGutter, drawSelection } from "@codemirror/view";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { autocompletion, completionKeymap } from "@codemirror/autocomplete";
import { lintGutter, setDiagnostics } from "@codemirror/lint";
import { syntaxHighlighting, HighlightStyle, indentOnInput, bracketMatching, foldGutter } from "@codemirror/language";
import { searchKeymap, highlightSelectionMatches } from "@codemirror/search";
import { tags } from "@lezer/highlight";

const keys = {
  top: ["steps", "env", "agents", "notify", "priority"],
  step: ["label", "command", "commands", "key", "agents", "env", "depends_on", "if", "branches", "artifact_paths", "timeout_in_minutes", "parallelism", "matrix", "retry", "soft_fail", "skip", "concurrency", "concurrency_group", "plugins", "wait", "block", "input", "trigger", "group", "steps", "notify", "allow_dependency_failure", "continue_on_failure", "prompt", "fields", "build", "async", "priority", "secrets", "cache"],
};

function complete(context) {
  const word = context.matchBefore(/[a-z_]*/);
  const line = context.state.doc.lineAt(context.pos);
  const before = line.text.slice(0, word.from - line.from);
  if (!/^\s*(-\s+)?$/.test(before) || (word.from === word.to && !context.explicit)) return null;
  const options = (before === "" ? keys.top : keys.step).map((label) => ({ label, type: "property", apply: label + ": " }));
  return { from: word.from, options };
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
  ".cm-panels": { backgroundColor: "var(--surface)", color: "var(--text)" },
  "&.cm-focused": { outline: "none" },
});

// createEditor shows an editor in a shadow root, where its style sheets do not need inline styles.
export function createEditor(parent, text, { label, changed }) {
  const root = parent.attachShadow({ mode: "open" });
  const view = new EditorView({
    root, parent: root,
    state: EditorState.create({ doc: text, extensions: [
      lineNumbers(), foldGutter(), lintGutter(), history(), drawSelection(), indentOnInput(), bracketMatching(), highlightActiveLine(), highlightActiveLineGutter(), highlightSelectionMatches(),
      yaml(), autocompletion({ override: [complete] }), syntaxHighlighting(style), theme,
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
