/** The editor for queries: CodeMirror in a shadow root, so that its styles are sheets of that root and not inline. */
import { autocompletion, completionKeymap, type CompletionContext, type CompletionResult } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { bracketMatching, HighlightStyle, indentOnInput, StreamLanguage, syntaxHighlighting } from "@codemirror/language";
import { linter, lintKeymap, type Diagnostic as EditorDiagnostic } from "@codemirror/lint";
import { EditorState } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import type { Diagnostic } from "./wire";

export interface Words {
  keywords: Set<string>;
  functions: Set<string>;
}

const language = (words: Words) =>
  StreamLanguage.define({
    token(stream) {
      if (stream.eatSpace()) return null;
      if (stream.match(/\/\/.*|#.*/)) return "comment";
      if (stream.match(/"(?:[^"\\]|\\.)*"?/)) return "string";
      if (stream.match(/\$\w+/)) return "variableName";
      if (stream.match(/@\w+/)) return "meta";
      if (stream.match(/\d+(\.\d+)?([eE][+-]?\d+)?/)) return "number";
      const word = stream.match(/\w+/) as RegExpMatchArray | null;
      if (word) {
        if (words.keywords.has(word[0])) return "keyword";
        if (words.functions.has(word[0])) return "function";
        return /^[A-Z]/.test(word[0]) ? "typeName" : "propertyName";
      }
      stream.next();
      return "punctuation";
    },
    tokenTable: { function: tags.function(tags.variableName) },
    languageData: { commentTokens: { line: "//" } },
  });

const colours = HighlightStyle.define([
  { tag: tags.keyword, color: "var(--accent)", fontWeight: "600" },
  { tag: tags.typeName, color: "var(--add)" },
  { tag: tags.variableName, color: "var(--update)" },
  { tag: tags.string, color: "var(--delete)" },
  { tag: tags.comment, color: "var(--muted)", fontStyle: "italic" },
  { tag: tags.meta, color: "var(--muted)" },
]);

const theme = EditorView.theme({
  "&": { height: "100%", flex: "1", fontSize: "13px", color: "var(--text)", backgroundColor: "var(--panel)" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.55" },
  ".cm-gutters": { backgroundColor: "var(--panel)", color: "var(--muted)", border: "none" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--sunk)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  "&.cm-focused": { outline: "2px solid var(--focus)", outlineOffset: "-2px" },
  ".cm-selectionBackground, &.cm-focused .cm-selectionBackground": { backgroundColor: "var(--accent-soft) !important" },
  ".cm-tooltip": { backgroundColor: "var(--panel)", border: "1px solid var(--line)", borderRadius: "8px", color: "var(--text)" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--accent-soft)", color: "var(--text)" },
  ".cm-completionDetail": { color: "var(--muted)", fontStyle: "normal" },
});

export interface EditorOptions {
  parent: HTMLElement;
  text: string;
  words: Words;
  onChange: (text: string) => void;
  onRun: () => void;
  lint: (text: string) => Promise<Diagnostic[]>;
  complete: (text: string, line: number, column: number) => Promise<{ label: string; kind: string; detail?: string }[]>;
}

export function makeEditor(options: EditorOptions): EditorView {
  const root = options.parent.shadowRoot ?? options.parent.attachShadow({ mode: "open" });
  root.replaceChildren();
  const place = (state: EditorState, line: number, column: number) => {
    const found = state.doc.line(Math.max(1, Math.min(line, state.doc.lines)));
    return Math.min(found.from + Math.max(0, column - 1), found.to);
  };
  const complete = async (context: CompletionContext): Promise<CompletionResult | null> => {
    const before = context.matchBefore(/[$@]?\w*/);
    if (!context.explicit && !before?.text && !/[.$:{]\s?$/.test(context.state.sliceDoc(Math.max(0, context.pos - 2), context.pos))) return null;
    const line = context.state.doc.lineAt(context.pos);
    const items = await options.complete(context.state.doc.toString(), line.number, context.pos - line.from + 1);
    if (context.aborted || !items.length) return null;
    const start = before?.from ?? context.pos;
    const hasSign = items.some((item) => item.label.startsWith("$"));
    return { from: hasSign ? start : start + (/^[$@]/.test(before?.text ?? "") ? 1 : 0), options: items.map((item) => ({ label: item.label, type: item.kind, detail: item.detail ?? item.kind })) };
  };
  const lint = linter(
    async (view): Promise<EditorDiagnostic[]> => {
      const text = view.state.doc.toString();
      if (!text.trim()) return [];
      const found = await options.lint(text).catch(() => []);
      return found.map((each) => ({ from: place(view.state, each.line, each.column), to: Math.max(place(view.state, each.line, each.column) + 1, place(view.state, each.end_line, each.end_column)), severity: each.severity, message: `${each.rule}: ${each.message}${each.hint ? `\n${each.hint}` : ""}` })).map((each) => ({ ...each, to: Math.min(each.to, view.state.doc.length), from: Math.min(each.from, view.state.doc.length) }));
    },
    { delay: 350 },
  );
  return new EditorView({
    parent: root,
    root,
    state: EditorState.create({
      doc: options.text,
      extensions: [
        keymap.of([{ key: "Mod-Enter", run: () => (options.onRun(), true) }, ...completionKeymap, ...defaultKeymap, ...historyKeymap, ...lintKeymap]),
        lineNumbers(),
        history(),
        drawSelection(),
        indentOnInput(),
        bracketMatching(),
        highlightActiveLine(),
        language(options.words),
        syntaxHighlighting(colours),
        autocompletion({ override: [complete], activateOnTyping: true }),
        lint,
        theme,
        EditorView.contentAttributes.of({ "aria-label": "Query" }),
        EditorView.updateListener.of((update) => update.docChanged && options.onChange(update.state.doc.toString())),
      ],
    }),
  });
}
