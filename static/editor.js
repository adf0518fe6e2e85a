// The editor of tools: CodeMirror over the textareas, the fields of the chosen kind, lint while
// typing, what was typed and not saved. Without it all of this works as a plain form.

import {
  EditorState, EditorView, HighlightStyle, LRLanguage, bracketMatching, codeFolding, defaultKeymap, drawSelection,
  ensureSyntaxTree, foldGutter, foldInside, foldKeymap, foldNodeProp, highlightActiveLine, highlightSpecialChars,
  history, historyKeymap, indentOnInput, indentUnit, indentWithTab, json, keymap, lineNumbers, lintGutter, lintKeymap,
  pythonParser, setDiagnostics, syntaxHighlighting, tags,
} from "./vendor/codemirror-6.min.js";

const $ = (id) => document.getElementById(id);
const LATER_MS = 300;

// CodeMirror ----------------------------------------------------------------------------------

const colours = HighlightStyle.define([
  { tag: tags.propertyName, color: "var(--accent)" },
  { tag: [tags.string, tags.docString], color: "var(--ran-ink)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--waiting-ink)" },
  { tag: [tags.keyword, tags.definitionKeyword, tags.controlKeyword], color: "var(--thinking)" },
  { tag: tags.comment, color: "var(--muted)" },
  { tag: [tags.function(tags.definition(tags.variableName)), tags.typeName], color: "var(--accent)" },
]);

// It stands in a shadow root: its styles come as a constructed sheet, which the page's policy lets
// pass, and never as a <style>.
const theme = EditorView.theme({
  "&": { fontSize: "12.5px", color: "var(--ink)", backgroundColor: "var(--panel)", maxHeight: "60vh" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.55", overflow: "auto" },
  ".cm-content": { padding: "8px 0", caretColor: "var(--ink)" },
  ".cm-gutters": { backgroundColor: "transparent", color: "var(--muted)", borderRight: "1px solid var(--line)" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "color-mix(in srgb, var(--accent) 5%, transparent)" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    backgroundColor: "color-mix(in srgb, var(--accent) 24%, transparent)",
  },
  "&.cm-focused .cm-matchingBracket": { backgroundColor: "var(--accent-soft)", outline: "1px solid var(--accent)" },
  "&.cm-focused .cm-nonmatchingBracket": { backgroundColor: "var(--failed-soft)" },
  ".cm-tooltip": { backgroundColor: "var(--panel)", color: "var(--ink)", border: "1px solid var(--line)", borderRadius: "8px" },
  ".cm-panels": { backgroundColor: "var(--faint)", color: "var(--ink)" },
  ".cm-diagnostic": { fontFamily: "var(--sans)", padding: "6px 10px", maxWidth: "420px" },
  ".cm-foldPlaceholder": { backgroundColor: "var(--faint)", border: "1px solid var(--line)", color: "var(--muted)" },
});

const python = LRLanguage.define({
  name: "python",
  parser: pythonParser.configure({ props: [foldNodeProp.add({ Body: foldInside, ArrayExpression: foldInside, ParamList: foldInside })] }),
});

const views = new Map(); // the textarea's id -> its view

function mount(textarea, language) {
  const host = document.createElement("div");
  host.className = "code-editor";
  host.dataset.typing = "";
  const root = host.attachShadow({ mode: "open" });
  textarea.after(host);
  textarea.hidden = true;
  const described = textarea.getAttribute("aria-describedby");
  const view = new EditorView({
    parent: root,
    root,
    state: EditorState.create({
      doc: textarea.value,
      extensions: [
        lineNumbers(), foldGutter(), lintGutter(), codeFolding(), highlightSpecialChars(), history(), drawSelection(),
        indentOnInput(), bracketMatching(), highlightActiveLine(), syntaxHighlighting(colours), theme,
        indentUnit.of(language === "python" ? "    " : "  "),
        language === "python" ? python : json(),
        keymap.of([{ key: "Shift-Alt-f", run: layOut }, ...lintKeymap, ...defaultKeymap, ...historyKeymap, ...foldKeymap, indentWithTab]),
        EditorState.readOnly.of(textarea.readOnly),
        EditorView.contentAttributes.of({ "aria-label": textarea.getAttribute("aria-label"), ...(described && { "aria-description": $(described)?.textContent ?? "" }) }),
        EditorView.domEventHandlers({ beforeinput: typedOver }),
        EditorView.updateListener.of((update) => {
          if (!update.docChanged) return;
          textarea.value = update.state.doc.toString();
          textarea.dispatchEvent(new Event("input", { bubbles: true }));
        }),
      ],
    }),
  });
  // Escape is the first half of leaving by Tab, and closes nothing else.
  host.addEventListener("keydown", (event) => event.key === "Escape" && event.stopPropagation());
  views.set(textarea.id, view);
}

// Left to itself the browser types over coloured text in a style attribute, which the page's policy
// refuses.
function typedOver(event, view) {
  if (event.inputType !== "insertText" || event.data === null || view.composing) return false;
  const { from, to } = selected(view);
  if (from === to) return false;
  event.preventDefault();
  if (view.state.readOnly) return true;
  view.dispatch({ changes: { from, to, insert: event.data }, selection: { anchor: from + event.data.length }, userEvent: "input.type", scrollIntoView: true });
  return true;
}

// What the browser has selected: the view hears of it a little later.
function selected(view) {
  const selection = (view.root.getSelection ?? document.getSelection).call(view.root.getSelection ? view.root : document);
  if (!view.contentDOM.contains(selection?.anchorNode) || !view.contentDOM.contains(selection.focusNode)) return view.state.selection.main;
  const ends = [view.posAtDOM(selection.anchorNode, selection.anchorOffset), view.posAtDOM(selection.focusNode, selection.focusOffset)];
  return { from: Math.min(...ends), to: Math.max(...ends) };
}

function layOut() {
  const button = $("format");
  if (!button) return false;
  button.click();
  return true;
}

// Marks ---------------------------------------------------------------------------------------

const SEVERITY = { refused: "error", ignored: "warning", strict: "warning", weak: "info" };

// Where `pointer` (below /parameters) stands in the JSON text; the nearest place above it that does.
function placed(view, pointer) {
  const { state } = view;
  const tree = ensureSyntaxTree(state, state.doc.length, 200);
  let node = tree?.topNode.firstChild;
  let range = node && { from: node.from, to: Math.min(node.to, state.doc.lineAt(node.from).to) };
  for (const raw of pointer.split("/").slice(2)) {
    const key = raw.replaceAll("~1", "/").replaceAll("~0", "~");
    const next = node?.name === "Object" ? member(state, node, key) : node?.name === "Array" ? item(node, Number(key)) : null;
    if (!next) break;
    node = next.node;
    range = { from: next.from, to: next.to };
  }
  return range;
}

function member(state, node, key) {
  for (const property of node.getChildren("Property")) {
    const name = property.getChild("PropertyName");
    try {
      if (name && JSON.parse(state.sliceDoc(name.from, name.to)) === key) return { node: property.lastChild, from: name.from, to: name.to };
    } catch {
      // A name that is still being typed names nothing yet.
    }
  }
  return null;
}

function item(node, number) {
  const items = [];
  for (let child = node.firstChild; child; child = child.nextSibling) if (!"[],⚠".includes(child.name)) items.push(child);
  const found = items[number];
  return found ? { node: found, from: found.from, to: Math.min(found.to, found.from + 60) } : null;
}

function lined(view, said, number) {
  const line = view.state.doc.line(Math.min(Math.max(number, 1), view.state.doc.lines));
  const column = Number(/column (\d+)/.exec(said)?.[1] ?? 1);
  const from = Math.min(line.from + column - 1, line.to);
  return { from: from === line.to ? line.from : from, to: line.to };
}

// What lint says is marked where it is.
function marked() {
  const lint = $("lint");
  const name = views.has("parameters") ? "parameters" : "source";
  const view = views.get(name);
  if (!lint || !view) return;
  const found = [];
  const { line, problem, pointer } = lint.dataset;
  if (line) found.push({ ...lined(view, problem, Number(line)), severity: "error", message: problem });
  if (name === "parameters") {
    if (!line && problem && pointer.startsWith("/parameters")) found.push({ ...placed(view, pointer), severity: "error", message: problem });
    for (const one of lint.querySelectorAll("[data-severity]")) {
      if (!one.dataset.pointer.startsWith("/parameters/")) continue;
      found.push({ ...placed(view, one.dataset.pointer), severity: SEVERITY[one.dataset.severity], message: one.dataset.message });
    }
  }
  const sound = found.filter((one) => Number.isInteger(one.from)).sort((one, other) => one.from - other.from);
  view.dispatch(setDiagnostics(view.state, sound));
  view.contentDOM.setAttribute("aria-invalid", String(sound.some((one) => one.severity === "error")));
}

// The fields of the kind and of what it takes --------------------------------------------------

function choose() {
  const chosen = document.querySelector("input[name=answered_by]:checked")?.value;
  for (const fields of document.querySelectorAll("fieldset.kind")) fields.hidden = fields.dataset.kind !== chosen;
  const takes = document.querySelector("input[name=takes]:checked")?.value;
  for (const part of document.querySelectorAll("[data-takes]")) part.hidden = !part.dataset.takes.split(" ").includes(takes);
}

// Lint, a little after the last letter ----------------------------------------------------------

let timer;
let dirty = false;

function unsaved() {
  $("saved").textContent = "not saved";
  $("saved").classList.add("waiting");
}

function changed(event) {
  if (!event.target.closest?.("#tool")) return;
  dirty = true;
  unsaved();
  clearTimeout(timer);
  timer = setTimeout(() => $("lint")?.dispatchEvent(new Event("judge")), LATER_MS);
}

document.addEventListener("input", changed);
document.addEventListener("change", (event) => {
  choose();
  if (event.target.matches?.("#tool input, #tool select")) changed(event);
});
document.addEventListener("keydown", (event) => {
  if (event.shiftKey && event.altKey && event.code === "KeyF" && !event.defaultPrevented && layOut()) event.preventDefault();
});
document.addEventListener("submit", (event) => {
  if (event.target.id === "tool") dirty = false;
});
window.addEventListener("beforeunload", (event) => {
  if (dirty) event.preventDefault();
});

// The form is drawn anew by its own buttons -----------------------------------------------------

let stood; // what had the cursor before, and on which line
let changes = false; // whether what was asked for changes the tool

function mounted() {
  for (const [id, view] of views) {
    if (view.dom.isConnected) continue;
    view.destroy();
    views.delete(id);
  }
  for (const coder of document.querySelectorAll("[data-coder]")) {
    const textarea = coder.querySelector("textarea");
    if (!coder.querySelector(".code-editor")) mount(textarea, coder.dataset.coder);
  }
  choose();
  marked();
}

document.addEventListener("htmx:before:request", (event) => {
  const { name } = event.target;
  changes = ["act", "apply"].includes(name) || Boolean(name?.endsWith(".type"));
  const view = views.get("parameters");
  stood = { id: document.activeElement?.id, line: view && view.state.doc.lineAt(view.state.selection.main.head).number };
});

document.addEventListener("htmx:after:swap", () => {
  const form = $("tool");
  const isNew = form && !form.dataset.ui;
  mounted();
  if (!isNew) return;
  form.dataset.ui = "drawn";
  if (dirty && !changes) unsaved();
  focused(form.dataset.focus);
  if (changes) form.dispatchEvent(new Event("input", { bubbles: true }));
  changes = false;
});

function focused(id) {
  const view = views.get(id);
  if (view) {
    const line = view.state.doc.line(Math.min(stood?.line ?? 1, view.state.doc.lines));
    view.dispatch({ selection: { anchor: line.from }, scrollIntoView: true });
    view.focus();
    return;
  }
  const place = (id && $(id)) || (stood?.id && $(stood.id));
  place?.focus();
  if (id && place?.matches("input")) place.select();
}

for (const label of document.querySelectorAll("label[for=parameters]")) label.addEventListener("click", () => views.get("parameters")?.focus());
if ($("tool")) $("tool").dataset.ui = "drawn";
mounted();
