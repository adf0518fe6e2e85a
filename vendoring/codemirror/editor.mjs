// What of CodeMirror the editor of tools uses; bundled into static/vendor/codemirror-6.min.js.
export { EditorState } from "@codemirror/state";
export { EditorView, keymap, lineNumbers, drawSelection, highlightActiveLine, highlightSpecialChars } from "@codemirror/view";
export { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
export { HighlightStyle, LRLanguage, bracketMatching, codeFolding, ensureSyntaxTree, foldGutter, foldInside, foldKeymap, foldNodeProp, indentNodeProp, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
export { lintGutter, lintKeymap, setDiagnostics } from "@codemirror/lint";
export { json } from "@codemirror/lang-json";
export { parser as pythonParser } from "@lezer/python";
export { tags } from "@lezer/highlight";
