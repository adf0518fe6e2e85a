// CodeMirror over the textareas of the editor of tools: one view for each, which outlives the form
// it was drawn in, so that what a button has changed can be undone like what was typed.

import {
  EditorState, EditorView, HighlightStyle, LRLanguage, bracketMatching, codeFolding, defaultKeymap, drawSelection,
  ensureSyntaxTree, foldGutter, foldInside, foldKeymap, foldNodeProp, highlightActiveLine, highlightSpecialChars,
  history, historyKeymap, indentNodeProp, indentOnInput, indentUnit, indentWithTab, json, keymap, lineNumbers, lintGutter, lintKeymap,
  pythonParser, setDiagnostics, syntaxHighlighting, tags,
} from "./vendor/codemirror-6.min.js";

const $ = (id) => document.getElementById(id);

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

// Python says by its indentation what belongs together: a new line stands as the one above, and
// deeper behind a colon or an open bracket, until that is closed.
function asAbove(context) {
  const { doc } = context.state;
  let { number, text, from } = doc.lineAt(context.pos);
  text = context.simulatedBreak === null ? "" : text.slice(0, context.pos - from);
  while (!text.trim() && number > 1) text = doc.line(--number).text;
  const deeper = /[:([{]\s*(#.*)?$/.test(text) - /^\s*[)\]}]/.test(context.textAfter);
  return Math.max(0, /^\s*/.exec(text)[0].length + deeper * context.unit);
}

const python = LRLanguage.define({
  name: "python",
  languageData: { indentOnInput: /^\s*[)\]}]$/ },
  parser: pythonParser.configure({
    props: [
      foldNodeProp.add({ Body: foldInside, ArrayExpression: foldInside, ParamList: foldInside }),
      indentNodeProp.add(() => asAbove),
    ],
  }),
});

export const views = new Map(); // the textarea's id -> its view

let drawing = false; // whether a change comes from the server and not from the user

function mount(textarea, language) {
  const was = views.get(textarea.id);
  if (was && was.state.readOnly === textarea.readOnly) remount(was, textarea);
  else {
    was?.destroy();
    views.set(textarea.id, made(textarea, language));
  }
  textarea.hidden = true;
}

const hosts = new WeakMap(); // view -> the element it stands in

function remount(view, textarea) {
  textarea.after(hosts.get(view));
  shows(view, textarea.value);
}

// The view with another text, as one change; the cursor stays on its line.
function shows(view, text) {
  const now = view.state.doc.toString();
  if (now === text) return;
  let from = 0;
  let after = 0;
  const most = Math.min(now.length, text.length);
  while (from < most && now[from] === text[from]) from++;
  while (after < most - from && now[now.length - 1 - after] === text[text.length - 1 - after]) after++;
  const { head } = view.state.selection.main;
  const line = view.state.doc.lineAt(head).number;
  drawing = true;
  view.dispatch({ changes: { from, to: now.length - after, insert: text.slice(from, text.length - after) }, userEvent: "redraw" });
  drawing = false;
  const moved = head > from && head < now.length - after;
  if (moved) view.dispatch({ selection: { anchor: view.state.doc.line(Math.min(line, view.state.doc.lines)).from } });
}

function made(textarea, language) {
  const { id } = textarea;
  const host = document.createElement("div");
  host.className = "code-editor";
  host.dataset.typing = "";
  host.style.minHeight = `${textarea.offsetHeight}px`; // what stands below it stays where it is
  const root = host.attachShadow({ mode: "open" });
  textarea.after(host);
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
        matchMedia("(max-width: 640px)").matches ? EditorView.lineWrapping : [],
        EditorView.contentAttributes.of(() => attributes(id)),
        EditorView.domEventHandlers({ beforeinput: typedOver }),
        EditorView.updateListener.of((update) => {
          const field = $(id);
          if (!update.docChanged || !field) return;
          field.value = update.state.doc.toString();
          if (!drawing) field.dispatchEvent(new Event("input", { bubbles: true }));
        }),
      ],
    }),
  });
  // What is only read is scrolled by keys, too.
  if (textarea.readOnly) view.scrollDOM.tabIndex = 0;
  // Escape is the first half of leaving by Tab, and closes nothing else.
  host.addEventListener("keydown", (event) => event.key === "Escape" && event.stopPropagation());
  hosts.set(view, host);
  return view;
}

function attributes(id) {
  const field = $(id);
  const described = field?.getAttribute("aria-describedby");
  return { tabindex: "0", "aria-label": field?.getAttribute("aria-label") ?? "", "aria-description": (described && $(described)?.textContent) || "" };
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

export function layOut() {
  const button = $("format");
  if (!button) return false;
  button.click();
  return true;
}

// Marks ---------------------------------------------------------------------------------------

const SEVERITY = { unsatisfiable: "error", refused: "error", ignored: "warning", strict: "warning", weak: "info" };

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
export function marked() {
  const lint = $("lint");
  const name = $("parameters") ? "parameters" : "source";
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

// The line of a finding, selected: in Python that of the parameter.
export function reveal(id, pointer) {
  const view = views.get(id);
  const { doc } = view.state;
  const range = id === "parameters" ? placed(view, pointer) : named(doc, pointer);
  const line = doc.lineAt(Math.min(range?.from ?? 0, doc.length));
  const from = line.from + /^\s*/.exec(line.text)[0].length;
  view.dispatch({ selection: { anchor: from, head: line.to }, effects: EditorView.scrollIntoView(from, { y: "center" }) });
  view.focus();
}

function named(doc, pointer) {
  const name = /^\/parameters\/properties\/(\w+)/.exec(pointer)?.[1];
  const from = name ? doc.toString().search(new RegExp(`\\b${name}\\b\\s*[:=]`)) : -1;
  return from < 0 ? null : { from };
}

// The form as it stands now ---------------------------------------------------------------------

// Each textarea gets its view, an old one where there was one.
export function mounted() {
  for (const coder of document.querySelectorAll("[data-coder]")) {
    if (!coder.querySelector(".code-editor")) mount(coder.querySelector("textarea"), coder.dataset.coder);
  }
  marked();
}

// The browser has put a text back that was typed before the page was left.
export function restored() {
  for (const [id, view] of views) if ($(id)?.matches("[data-coder] *")) shows(view, $(id).value);
}

// The view that has the focus, as its id.
export const focused = () => [...views.keys()].find((id) => hosts.get(views.get(id)) === document.activeElement);
