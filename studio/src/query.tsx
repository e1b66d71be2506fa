/** Write a query, run it at a revision, look at the answer: table, graph, JSON, plan. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { EditorView } from "@codemirror/view";
import { ask, ApiError, get, graphPath, read, saveFile, type Fields, type Json } from "./api";
import { count, csv, listOf, numberOf, plural, shortId, shown } from "./format";
import { Picture, type PictureEdge, type PictureNode } from "./picture";
import { asApiError, catalog, commitId, go, graph, isBranch, link, nodeTypes, param, readAgain, refs, rev, rights, setParams, whyNot } from "./state";
import { Button, CommitLink, copy, Empty, Head, Loaded, MenuButton, Problem, Skeleton, Tabs, useLoad, useWindow, useWrite, Value } from "./ui";
import type { Commit, Diagnostic, Result, StoredQuery } from "./wire";

const RUNS = "omnigraph.runs";
const MAX_RUNS = 30;

interface Run {
  text: string;
  params: string;
  at: number;
  rows: number;
}

function starting(): string {
  const node = catalog.value.data?.nodes[0];
  if (!node) return "query hello() {\n  match { }\n  return { }\n}\n";
  const columns = node.properties.filter((property) => property.scalar !== "Blob" && !property.vector_dim).slice(0, 3).map((property) => `$n.${property.name} as ${property.name}`);
  return `query first() {\n  match { $n: ${node.name} }\n  return { ${columns.join(", ") || "count($n) as n"} }\n  limit 25\n}\n`;
}

const runsOf = (): Run[] => {
  try {
    return JSON.parse(localStorage.getItem(RUNS + graph.value) ?? "[]") as Run[];
  } catch {
    return [];
  }
};

/** The parameters that the first query of the text declares. */
export function declared(text: string): { name: string; type: string }[] {
  const list = text.match(/\bquery\s+\w+\s*\(([^)]*)\)/)?.[1] ?? "";
  return list.split(/,(?![^[]*\])/).flatMap((part) => {
    const found = part.match(/\$(\w+)\s*:\s*([^=]+)/);
    return found ? [{ name: found[1]!, type: found[2]!.trim() }] : [];
  });
}

const isMutation = (text: string) => /\{\s*(insert|create|upsert|update|delete)\s+[A-Z]/.test(text.replace(/"(?:[^"\\]|\\.)*"/g, '""').replace(/(\/\/|#).*/g, ""));

function valueOf(text: string, type: string): Json {
  if (text === "") return null;
  const bare = type.replace("?", "");
  if (/^[IUF]\d+$/.test(bare)) return numberOf(text, bare);
  if (bare === "Bool") return text === "true";
  if (bare.startsWith("[") || bare.startsWith("Vector")) return listOf(text, bare.replace("[", ""));
  return text;
}

export function Query() {
  if (!catalog.value.data) return <Skeleton lines={10} />;
  return <Workbench key={commitId.value ? graph.value : ""} />;
}

function Workbench() {
  const name = graph.value;
  const branch = isBranch.value ? rev.value : "main";
  const [text, setText] = useState(() => param("q") || starting());
  const [values, setValues] = useState<Record<string, string>>(() => {
    try {
      const given = JSON.parse(param("params") || "{}") as Record<string, Json>;
      return Object.fromEntries(Object.entries(given).map(([key, value]) => [key, typeof value === "string" ? value : JSON.stringify(value)]));
    } catch {
      return {};
    }
  });
  const [answer, setAnswer] = useState<{ result?: Result; ms?: number; error?: ApiError; isBusy: boolean; other?: Result; otherName?: string }>({ isBusy: false });
  const [mayWrite, setMayWrite] = useState(false);
  const [runs, setRuns] = useState(runsOf);
  const stop = useRef<AbortController | null>(null);
  const editor = useRef<EditorView | null>(null);
  const latest = useRef(() => {});
  const tab = param("tab") || "table";
  const parameters = useMemo(() => declared(text), [text]);
  const writes = isMutation(text);
  const write = useWrite<{ commit: Commit | null; affected_nodes: number; affected_edges: number }>((value) => {
    setAnswer({ isBusy: false });
    readAgain();
    if (value.commit) go(link("commit", [value.commit.graph_commit_id]));
  });
  const paramsNow = (): Record<string, Json> => Object.fromEntries(parameters.flatMap(({ name, type }) => (values[name] === undefined || values[name] === "" ? [] : [[name, valueOf(values[name]!, type)]])));

  const run = async (revision?: string) => {
    let params: Record<string, Json>;
    try {
      params = paramsNow();
    } catch {
      return setAnswer({ isBusy: false, error: asApiError(new Error("a list parameter is JSON: [1, 2]")) });
    }
    if (writes) {
      if (mayWrite && !whyNot("change", branch)) await write.run({ method: "POST", path: graphPath(name, "/mutate"), body: { query: text, params, branch } });
      return;
    }
    stop.current?.abort();
    const own = (stop.current = new AbortController());
    setAnswer((old) => (revision ? { ...old, isBusy: true } : { isBusy: true }));
    const began = performance.now();
    try {
      const body = { query: text, params, ...(revision ? {} : { snapshot: commitId.value }) };
      if (revision) {
        const { graph_commit_id } = await get<{ graph_commit_id: string }>(`${graphPath(name, "/catalog")}?rev=${encodeURIComponent(revision)}`, own.signal);
        const other = await ask<Result>(graphPath(name, "/query"), { ...body, snapshot: graph_commit_id }, own.signal);
        setAnswer((old) => ({ ...old, isBusy: false, other, otherName: revision }));
        return setParams({ tab: "compare" }, true);
      }
      const { value } = await read<Result>(graphPath(name, "/query"), own.signal, body);
      setAnswer({ isBusy: false, result: value, ms: performance.now() - began });
      const next = [{ text, params: JSON.stringify(params), at: Date.now(), rows: value.row_count }, ...runs.filter((each) => each.text !== text)].slice(0, MAX_RUNS);
      setRuns(next);
      localStorage.setItem(RUNS + name, JSON.stringify(next));
      setParams({ q: text, params: Object.keys(params).length ? JSON.stringify(params) : null }, true);
    } catch (error) {
      if (!own.signal.aborted) setAnswer({ isBusy: false, error: asApiError(error) });
      else setAnswer({ isBusy: false });
    }
  };
  latest.current = () => void run();
  useEffect(() => {
    if (param("q") && !writes) void run();
  }, []);
  const replace = (next: string) => {
    setText(next);
    editor.current?.dispatch({ changes: { from: 0, to: editor.current.state.doc.length, insert: next } });
  };
  const stored = useLoad([name], (signal) => get<{ queries: StoredQuery[] }>(graphPath(name, "/queries"), signal));
  const format = async () => {
    try {
      replace((await ask<{ query: string }>(graphPath(name, "/format"), { query: text })).query);
    } catch (error) {
      setAnswer({ isBusy: false, error: asApiError(error) });
    }
  };
  /** The answer of the last run as Arrow's stream, from the commit it was read at. */
  const saveArrow = async () => {
    try {
      const { response } = await read(graphPath(name, "/query"), undefined, { query: param("q"), params: JSON.parse(param("params") || "{}") as Json, snapshot: commitId.value }, "application/vnd.apache.arrow.stream");
      saveFile("rows.arrows", await response.blob());
    } catch (error) {
      setAnswer({ isBusy: false, error: asApiError(error) });
    }
  };
  const isProtected = rights.value?.protected_branches.includes(branch);
  return (
    <>
      <Head title="Query" text={<>Runs at {isBranch.value ? branch : shortId(rev.value)}, commit <CommitLink id={commitId.value} /></>}>
        <Button onClick={() => void format()}>Format</Button>
        <MenuButton
          label="Past runs and stored queries"
          text="Open"
          items={[
            ...(stored.data?.queries ?? []).map((query) => ({ text: `stored: ${query.name}`, run: () => go(link("query", [], { stored: query.name })) })),
            ...runs.map((each) => ({ text: `${each.text.match(/query\s+(\w+)/)?.[1] ?? "run"} · ${plural(each.rows, "row")} · ${new Date(each.at).toLocaleTimeString()}`, run: () => replace(each.text) })),
            { text: "Start again", run: () => replace(starting()) },
          ]}
        />
        <Button onClick={() => saveFile(`${text.match(/query\s+(\w+)/)?.[1] ?? "query"}.gq`, text)}>Save as file</Button>
        {answer.isBusy ? <Button onClick={() => stop.current?.abort()}>Cancel</Button> : <Button kind="primary" why={writes ? (!mayWrite ? "this text writes: turn on Write" : whyNot("change", branch)) : ""} onClick={() => void run()}>{writes ? `Write to ${branch}` : "Run"}</Button>}
      </Head>
      {param("stored") && <Stored query={stored.data?.queries.find((each) => each.name === param("stored"))} />}
      <Editor text={text} onText={setText} onRun={() => latest.current()} view={editor} branch={branch} />
      {(parameters.length > 0 || writes) && (
        <div class="row">
          {parameters.map(({ name, type }) => (
            <label key={name} class="field">
              ${name}: {type}
              {type.replace("?", "") === "Bool" ? (
                <select value={values[name] ?? ""} onChange={(event) => setValues({ ...values, [name]: event.currentTarget.value })}><option value="">null</option><option>true</option><option>false</option></select>
              ) : (
                <input type="text" value={values[name] ?? ""} onInput={(event) => setValues({ ...values, [name]: event.currentTarget.value })} onKeyDown={(event) => event.key === "Enter" && void run()} />
              )}
            </label>
          ))}
          {writes && (
            <label class="switch">
              <input type="checkbox" role="switch" checked={mayWrite} onChange={(event) => setMayWrite(event.currentTarget.checked)} />
              Write to <strong class={isProtected ? "danger-text" : ""}>{branch}{isProtected ? " (protected)" : ""}</strong>
            </label>
          )}
          {writes && !isBranch.value && <span class="muted small">This revision is read-only; the write goes to {branch}.</span>}
        </div>
      )}
      {write.problem}
      <Tabs label="Answer" names={[["table", "Table"], ["graph", "Graph"], ["json", "JSON"], ["plan", "Plan"], ["compare", "Compare"]]} value={tab} onChange={(next) => setParams({ tab: next === "table" ? null : next }, true)} />
      <div class="card fill">
        {tab === "plan" ? (
          <Plan text={text} params={() => { try { return paramsNow(); } catch { return {}; } }} branch={branch} isWrite={writes} />
        ) : answer.error ? (
          <Problem error={answer.error} />
        ) : answer.isBusy && !answer.result ? (
          <Skeleton lines={6} />
        ) : !answer.result ? (
          <Empty title="No answer yet"><p>Ctrl Enter runs the query.</p></Empty>
        ) : tab === "compare" ? (
          <CompareResults answer={answer.result} other={answer.other} otherName={answer.otherName} onCompare={(revision) => void run(revision)} />
        ) : tab === "graph" ? (
          <ResultGraph result={answer.result} text={text} />
        ) : tab === "json" ? (
          <pre class="code scroll" tabIndex={0} aria-label="Answer as JSON">{shown(JSON.stringify(answer.result.rows.slice(0, 200), null, 1), 100_000)}</pre>
        ) : (
          <ResultTable result={answer.result} ms={answer.ms} onArrow={() => void saveArrow()} />
        )}
      </div>
    </>
  );
}

function Stored({ query }: { query: StoredQuery | undefined }) {
  const [values, setValues] = useState<Record<string, string>>({});
  const [answer, setAnswer] = useState<{ result?: Result; error?: ApiError }>({});
  if (!query) return null;
  const run = async () => {
    const kinds: Record<string, string> = { int: "I64", bigint: "I64", float: "F64", bool: "Bool", list: "[]", vector: "[]" };
    try {
      const params = Object.fromEntries(query.params.flatMap((each) => (values[each.name] ? [[each.name, valueOf(values[each.name]!, kinds[each.kind] ?? "String")]] : [])));
      setAnswer({ result: await ask<Result>(graphPath(graph.value, `/queries/${encodeURIComponent(query.name)}`), { params, snapshot: commitId.value }) });
    } catch (error) {
      setAnswer({ error: asApiError(error) });
    }
  };
  return (
    <section class="card" aria-label={`Stored query ${query.name}`}>
      <header><h2>{query.name}</h2><span class="muted">{query.description ?? "a stored query"}</span></header>
      <form class="body row" onSubmit={(event) => { event.preventDefault(); void run(); }}>
        {query.params.map((each) => <label key={each.name} class="field">${each.name}: {each.kind}{each.nullable ? "?" : ""}<input type="text" value={values[each.name] ?? ""} onInput={(event) => setValues({ ...values, [each.name]: event.currentTarget.value })} /></label>)}
        <Button type="submit" why={query.mutation ? "it writes; run it from the command line" : whyNot("invoke_query")}>Run the stored query</Button>
      </form>
      {answer.error && <Problem error={answer.error} />}
      {answer.result && <div class="fill"><ResultTable result={answer.result} ms={undefined} /></div>}
    </section>
  );
}

function Editor({ text, onText, onRun, view, branch }: { text: string; onText: (text: string) => void; onRun: () => void; view: { current: EditorView | null }; branch: string }) {
  const place = useRef<HTMLDivElement>(null);
  const [isReady, setReady] = useState(false);
  useEffect(() => {
    let isGone = false;
    const name = graph.value;
    void Promise.all([import("./editor"), get<{ queries: { keywords: string[]; functions: { name: string }[] } }>("/language")]).then(([{ makeEditor }, language]) => {
      if (isGone || !place.current) return;
      view.current = makeEditor({
        parent: place.current,
        text,
        words: { keywords: new Set(language.queries.keywords), functions: new Set(language.queries.functions.map((each) => each.name)) },
        onChange: onText,
        onRun,
        lint: async (query) => (await ask<{ diagnostics: Diagnostic[] }>(graphPath(name, "/lint"), { query, branch })).diagnostics,
        complete: async (query, line, column) => (await ask<{ items: { label: string; kind: string; detail?: string }[] }>(graphPath(name, "/complete"), { query, line, column, branch })).items,
      });
      setReady(true);
    });
    return () => {
      isGone = true;
      view.current?.destroy();
      view.current = null;
    };
  }, []);
  return (
    <div class="editor" data-ready={isReady}>
      <div ref={place} />
    </div>
  );
}

function ResultTable({ result, ms, onArrow }: { result: Result; ms: number | undefined; onArrow?: () => void }) {
  const frame = useRef<HTMLDivElement>(null);
  const columns = result.columns ?? Object.keys(result.rows[0] ?? {});
  const view = useWindow(result.rows.length, 32, frame, 32);
  const width = Math.max(120, Math.min(320, Math.floor(900 / Math.max(1, columns.length))));
  if (!result.rows.length) return <Empty title="No rows">The query found nothing.</Empty>;
  return (
    <>
      <div class="row body small">
        <span class="muted grow" role="status">{plural(result.row_count, "row")}{ms === undefined ? "" : ` in ${Math.round(ms)} ms`}</span>
        <Button onClick={() => void copy(csv(columns, result.rows), "The rows")}>Copy CSV</Button>
        <Button onClick={() => saveFile("rows.json", JSON.stringify(result.rows), "application/json")}>Save JSON</Button>
        {onArrow && <Button onClick={onArrow}>Save Arrow</Button>}
      </div>
      <div class="grid" ref={frame} role="grid" aria-label="Answer" aria-rowcount={result.rows.length + 1} tabIndex={0}>
        <div class="header" role="row">{columns.map((column) => <div key={column} role="columnheader" class="cell small muted" style={{ width: `${width}px` }}>{column}</div>)}</div>
        <div role="rowgroup" style={{ height: `${view.height}px`, position: "relative" }}>
          {result.rows.slice(view.first, view.last).map((row, at) => (
            <div key={view.first + at} class="line" role="row" aria-rowindex={view.first + at + 2} style={{ top: `${view.offset(view.first + at)}px` }}>
              {columns.map((column) => <div key={column} role="gridcell" class="cell" style={{ width: `${width}px` }}><Value value={row[column]} limit={160} /></div>)}
            </div>
          ))}
        </div>
      </div>
    </>
  );
}

/** Entities of the rows as nodes; a line joins entities of one row. */
function ResultGraph({ result, text }: { result: Result; text: string }) {
  const [selected, setSelected] = useState("");
  const drawn = useMemo(() => {
    const types = new Map([...text.matchAll(/\$(\w+)\s*:\s*([A-Z]\w*)/g)].map((found) => [found[1]!, found[2]!]));
    const nodes = new Map<string, PictureNode>();
    const edges = new Map<string, PictureEdge>();
    for (const row of result.rows.slice(0, 1000)) {
      const here: string[] = [];
      for (const [column, value] of Object.entries(row)) {
        if (!value || typeof value !== "object" || Array.isArray(value) || typeof value.id !== "string") continue;
        const type = types.get(column) ?? guess(value as Fields);
        const key = `${type}:${value.id}`;
        nodes.set(key, { key, type, label: String((value as Fields).name ?? value.id) });
        here.push(key);
      }
      for (let at = 1; at < here.length; at++) edges.set(`${here[at - 1]}|${here[at]}`, { key: `${here[at - 1]}|${here[at]}`, source: here[at - 1]!, target: here[at]!, label: "" });
    }
    return { nodes: [...nodes.values()].slice(0, 2000), edges: [...edges.values()] };
  }, [result]);
  if (!drawn.nodes.length) return <Empty title="The rows have no entities"><p>Return whole nodes to see them: <code>return {"{ $n }"}</code></p></Empty>;
  const [type, id] = selected.split(/:(.*)/s);
  return (
    <>
      <div class="row body small"><span class="muted grow">{plural(drawn.nodes.length, "node")}; a line joins nodes of one row</span>{selected && <a href={link("explore", [], { node: `${type}:${id}` })}>Explore {shown(id ?? "", 40)}</a>}</div>
      <Picture nodes={drawn.nodes} edges={drawn.edges} selected={selected} onSelect={setSelected} label="The answer as a graph" />
    </>
  );
}

/** The type whose properties a node has. */
function guess(value: Fields): string {
  const names = Object.keys(value).filter((name) => name !== "id").sort().join();
  for (const node of nodeTypes.value.values()) if (node.properties.filter((property) => property.scalar !== "Blob").map((property) => property.name).sort().join() === names) return node.name;
  return nodeTypes.value.keys().next().value ?? "";
}

function Plan({ text, params, branch, isWrite }: { text: string; params: () => Record<string, Json>; branch: string; isWrite: boolean }) {
  const load = useLoad([text, branch, isWrite], (stop) =>
    isWrite ? null : ask<{ keys: string; steps: { depth: number; step: string; access: string; rows: number | null; ms: number | null; note: string }[]; sql: string; run?: { row_count: number; reading_ms: number; engine_ms: number; total_ms: number } }>(graphPath(graph.value, "/explain"), { query: text, params: params(), branch, run: true }, stop),
  );
  if (isWrite) return <Empty title="A write has no plan" />;
  return (
    <Loaded load={load}>
      {(plan) => (
        <div class="body scroll" tabIndex={0} aria-label="Plan">
          {plan.run && <p class="muted">{plural(plan.run.row_count, "row")} · reading {plan.run.reading_ms.toFixed(1)} ms · engine {plan.run.engine_ms.toFixed(1)} ms · in all {plan.run.total_ms.toFixed(1)} ms</p>}
          <table>
            <thead><tr><th>Step</th><th>Access</th><th class="number">Rows</th><th>Note</th></tr></thead>
            <tbody>{plan.steps.map((step, at) => <tr key={at}><td class="mono" style={{ paddingLeft: `${8 + step.depth * 16}px` }}>{shown(step.step, 300)}</td><td>{step.access}</td><td class="number">{step.rows === null ? "" : count(step.rows)}</td><td class="muted">{step.note}</td></tr>)}</tbody>
          </table>
          <pre class="code wrap">{plan.sql}</pre>
        </div>
      )}
    </Loaded>
  );
}

function CompareResults({ answer, other, otherName, onCompare }: { answer: Result; other: Result | undefined; otherName: string | undefined; onCompare: (revision: string) => void }) {
  const [revision, setRevision] = useState(otherName ?? "main~1");
  const names = [...(refs.value.data?.branches ?? []), ...(refs.value.data?.tags ?? [])].map((ref) => ref.name);
  const rows = useMemo(() => {
    if (!other) return [];
    const left = new Map<string, number>();
    for (const row of other.rows) left.set(JSON.stringify(row), (left.get(JSON.stringify(row)) ?? 0) + 1);
    const added = answer.rows.filter((row) => {
      const key = JSON.stringify(row);
      const number = left.get(key) ?? 0;
      if (number) left.set(key, number - 1);
      return !number;
    });
    const removed = other.rows.filter((row) => {
      const key = JSON.stringify(row);
      const number = left.get(key) ?? 0;
      if (number) left.set(key, number - 1);
      return number > 0;
    });
    return [...added.map((row) => ({ op: "insert" as const, row })), ...removed.map((row) => ({ op: "delete" as const, row }))];
  }, [answer, other]);
  const columns = answer.columns ?? other?.columns ?? [];
  return (
    <div class="body scroll" tabIndex={0} aria-label="Comparison">
      <form class="row" onSubmit={(event) => { event.preventDefault(); onCompare(revision); }}>
        <datalist id="compare-revisions">{names.map((name) => <option key={name} value={name} />)}</datalist>
        <label class="row">Compare with the answer at <input type="text" list="compare-revisions" value={revision} onInput={(event) => setRevision(event.currentTarget.value)} /></label>
        <Button type="submit">Compare</Button>
      </form>
      {other && <p class="muted small">{plural(rows.filter((row) => row.op === "insert").length, "row")} only here, {plural(rows.filter((row) => row.op === "delete").length, "row")} only at {otherName}</p>}
      {other && (
        <table>
          <thead><tr><th></th>{columns.map((column) => <th key={column}>{column}</th>)}</tr></thead>
          <tbody>{rows.slice(0, 500).map(({ op, row }, at) => <tr key={at}><td><span class={`sign ${op}`} aria-label={op === "insert" ? "only here" : "only there"}>{op === "insert" ? "+" : "−"}</span></td>{columns.map((column) => <td key={column}><Value value={row[column]} limit={160} /></td>)}</tr>)}</tbody>
        </table>
      )}
    </div>
  );
}
