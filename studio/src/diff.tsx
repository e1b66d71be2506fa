/** What a commit changed, or what differs between two revisions: as a list, a table, a picture and JSON. */
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { get, graphPath, pathOf, saveFile, type Json } from "./api";
import { DiffPicture } from "./diff_picture";
import { count, plural, sameValue, shortId, shown, exactTime, timeOf, wordDiff } from "./format";
import { edgeTypes, go, graph, link, param, place, refs, setParams } from "./state";
import { Age, Button, CommitLink, copy, Empty, EntityLink, Head, Loaded, MenuButton, OP_NAMES, Problem, Properties, Sign, SIGNS, Skeleton, Tabs, TypeName, useKeys, useLoad, Value } from "./ui";
import type { Catalog, Change, Commit, Diff, Log, Op, TypeSummary } from "./wire";

const OPS: Op[] = ["insert", "update", "delete"];
const FIRST_PAGE = 100;
const PAGE = 2000;
const MAX_STEPS = 200;

export function CommitView() {
  const [id = ""] = place.value.rest;
  const side = param("parent") === "2" ? "merged_parent_commit_id" : "parent_commit_id";
  const commit = useLoad([graph.value, id], (stop) => get<Commit>(graphPath(graph.value, `/commits/${encodeURIComponent(id)}`), stop));
  return (
    <Loaded load={commit}>
      {(value) => {
        const parent = value[side];
        return (
          <>
            <Head title={<bdi>{shown(value.message?.split("\n")[0] ?? value.kind ?? "Commit", 120)}</bdi>} text={<>{value.kind} by {value.actor_id ?? "nobody in particular"}, <Age commit={value} /> · {exactTime(timeOf(value))}</>}>
              <a class="button" href={link("browse", [], { rev: id, at: null })}>Browse at</a>
              <a class="button" href={link("query", [], { rev: id, at: null })}>Query at</a>
              <Button onClick={() => void copy(id, "The id")}>Copy the id</Button>
            </Head>
            <div class="row small muted">
              <span class="mono">{id}</span>
              {value.parent_commit_id && <span>parent <CommitLink id={value.parent_commit_id} /></span>}
              {value.merged_parent_commit_id && (
                <>
                  <span>merged <CommitLink id={value.merged_parent_commit_id} /></span>
                  <Button onClick={() => setParams({ parent: side === "parent_commit_id" ? "2" : null })}>{side === "parent_commit_id" ? "Compare with the merged parent" : "Compare with the first parent"}</Button>
                </>
              )}
            </div>
            {value.message?.includes("\n") && <pre class="code wrap">{shown(value.message)}</pre>}
            {parent ? <Changes from={parent} to={id} /> : <Empty title="The first commit">It has no parent to compare with; the graph begins here.</Empty>}
          </>
        );
      }}
    </Loaded>
  );
}

export function DiffView() {
  const [from = "main", to = "main"] = place.value.rest;
  const names = [...(refs.value.data?.branches ?? []), ...(refs.value.data?.tags ?? [])].map((ref) => ref.name);
  const [typed, setTyped] = useState({ from, to });
  useEffect(() => setTyped({ from, to }), [from, to]);
  return (
    <>
      <Head title="Compare" text="What differs between two revisions: branches, tags, commits, main~3." />
      <form class="row" onSubmit={(event) => { event.preventDefault(); go(link("diff", [typed.from, typed.to], { tab: param("tab") })); }}>
        <datalist id="revisions">{names.map((name) => <option key={name} value={name} />)}</datalist>
        <label class="row">from <input type="text" list="revisions" data-filter value={typed.from} onInput={(event) => setTyped({ ...typed, from: event.currentTarget.value })} /></label>
        <label class="row">to <input type="text" list="revisions" value={typed.to} onInput={(event) => setTyped({ ...typed, to: event.currentTarget.value })} /></label>
        <Button type="submit" kind="primary">Compare</Button>
        <Button onClick={() => go(link("diff", [to, from], { tab: param("tab") }))}>Swap</Button>
        {refs.value.data?.branches.some((branch) => branch.name === to) && to !== from && <a class="button" href={link("merge", [to, from])}>Review the merge</a>}
      </form>
      <Changes from={from} to={param("step") || to} steps={(ends) => <Steps from={ends.from} to={to} head={param("step") ? "" : ends.to} />} />
    </>
  );
}

/** The commits of a revision that another commit has not, as a slider. `head`: the commit of the revision, if it is known. */
function Steps({ from, to, head }: { from: string; to: string; head: string }) {
  const load = useLoad([graph.value, from, to], async (stop) => {
    const last = head || (await get<Catalog>(pathOf(graphPath(graph.value, "/catalog"), { rev: to }), stop)).graph_commit_id;
    const log = await get<Log>(pathOf(graphPath(graph.value, "/log"), { ref: [from, to], limit: 2 * MAX_STEPS }), stop);
    const byId = new Map(log.commits.map((commit) => [commit.graph_commit_id, commit]));
    const older = new Set<string>();
    const walk = [from];
    for (let id = walk.pop(); id; id = walk.pop()) {
      if (older.has(id)) continue;
      older.add(id);
      for (const parent of [byId.get(id)?.parent_commit_id, byId.get(id)?.merged_parent_commit_id]) if (parent) walk.push(parent);
    }
    const steps: Commit[] = [];
    for (let id: string | null = last; id && !older.has(id); id = byId.get(id)?.parent_commit_id ?? null) {
      const commit = byId.get(id);
      if (!commit || steps.length > MAX_STEPS) return [];
      steps.unshift(commit);
    }
    return steps;
  });
  const steps = load.data ?? [];
  if (steps.length < 2) return null;
  const step = param("step");
  const found = steps.findIndex((commit) => commit.graph_commit_id === step);
  const at = found < 0 ? steps.length - 1 : found;
  const commit = steps[at]!;
  return (
    <div class="card"><div class="body slider">
      <label class="visually-hidden" for="steps">Commit</label>
      <input id="steps" type="range" min={0} max={steps.length - 1} value={at} aria-valuetext={shown(commit.message ?? shortId(commit.graph_commit_id), 80)} onInput={(event) => { const next = Number(event.currentTarget.value); setParams({ step: next === steps.length - 1 ? null : steps[next]!.graph_commit_id }, true); }} />
      <span class="small muted">{at + 1} of {plural(steps.length, "commit")}</span>
      <span class="small ellipsis">{shown(commit.message ?? commit.kind ?? "", 60)}</span>
    </div></div>
  );
}

export interface ChangeList {
  changes: Change[];
  isComplete: boolean;
  isLoading: boolean;
  more: () => void;
}

/** Pages of a diff, one after the other as they are wanted. */
function useChanges(from: string, to: string, types: string[], ops: string[]): ChangeList & { ends: { from: string; to: string } | undefined; error?: ReturnType<typeof useLoad>["error"] } {
  const [state, setState] = useState<{ changes: Change[]; token: string | undefined; isComplete: boolean; isLoading: boolean; error?: ReturnType<typeof useLoad>["error"] }>({ changes: [], token: undefined, isComplete: false, isLoading: true });
  const [wanted, setWanted] = useState(0);
  const key = JSON.stringify([graph.value, from, to, types, ops]);
  const first = useLoad([key], (stop) => get<Diff>(pathOf(graphPath(graph.value, "/diff"), { from, to, type: types, op: ops, limit: FIRST_PAGE }), stop));
  useEffect(() => {
    if (first.error) setState({ changes: [], token: undefined, isComplete: true, isLoading: false, error: first.error });
    else if (first.data && !first.isLoading) setState({ changes: first.data.changes ?? [], token: first.data.next_page_token, isComplete: !first.data.next_page_token, isLoading: false });
    else setState((old) => ({ ...old, isLoading: true }));
  }, [first.data, first.error, first.isLoading]);
  useEffect(() => {
    if (!wanted || !state.token || state.isLoading) return;
    const stop = new AbortController();
    setState((old) => ({ ...old, isLoading: true }));
    get<Diff>(pathOf(graphPath(graph.value, "/diff"), { from, to, type: types, op: ops, limit: PAGE, page_token: state.token }), stop.signal).then(
      (page) => setState((old) => ({ changes: [...old.changes, ...(page.changes ?? [])], token: page.next_page_token, isComplete: !page.next_page_token, isLoading: false })),
      (error: unknown) => !stop.signal.aborted && setState((old) => ({ ...old, isLoading: false, error: error as never })),
    );
  }, [wanted]);
  const ends = first.data && !first.isLoading ? { from: first.data.from, to: first.data.to } : undefined;
  return { ends, changes: state.changes, isComplete: state.isComplete, isLoading: state.isLoading, error: state.error, more: () => setWanted((old) => old + 1) };
}

export const keyOf = (change: Change): string => `${change.type.name}:${change.id}`;

function Changes({ from, to, steps }: { from: string; to: string; steps?: (ends: { from: string; to: string }) => ComponentChildren }) {
  const tab = param("tab") || "list";
  const types = place.value.params.getAll("type");
  const ops = place.value.params.getAll("op");
  const selected = param("sel");
  const list = useChanges(from, to, types, ops);
  // After the first rows: it takes every change, and they are what a person waits for.
  const hasRows = list.ends !== undefined;
  const summary = useLoad([graph.value, from, to, hasRows], (stop) => (hasRows ? get<Diff>(pathOf(graphPath(graph.value, "/diff"), { from, to, summary: true }), stop) : null));
  const rows = summary.data?.summary ?? [];
  const total = rows.filter((row) => !types.length || types.includes(row.type_name)).reduce((sum, row) => sum + OPS.filter((op) => !ops.length || ops.includes(op)).reduce((part, op) => part + row[op], 0), 0);
  const chosen = list.changes.find((change) => keyOf(change) === selected);
  useKeys((event) => {
    if (event.key === "Escape" && selected) return setParams({ sel: null }), true;
    return false;
  });
  if (list.error) return <Problem error={list.error} />;
  if (summary.data && !rows.length) return <Empty title="Nothing differs">Both revisions have the same content.</Empty>;
  return (
    <>
      {list.ends && steps?.(list.ends)}
      <Summary rows={rows} types={types} ops={ops} />
      <Tabs label="Form" names={[["list", "List"], ["table", "Table"], ["picture", "Picture"], ["json", "JSON"]]} value={tab} onChange={(name) => setParams({ tab: name === "list" ? null : name })} />
      <div class={chosen && tab !== "json" ? "split" : "fill"}>
        {tab === "list" && <List list={list} total={total} selected={selected} />}
        {tab === "table" && <Table list={list} selected={selected} />}
        {tab === "picture" && summary.isLoading && <div class="card"><Skeleton lines={8} /></div>}
        {tab === "picture" && summary.data && !summary.isLoading && <DiffPicture to={summary.data.to} list={list} total={total} summary={rows} types={types} selected={selected} />}
        {tab === "json" && <JsonForm list={list} />}
        {chosen && tab !== "json" && <ChangePanel change={chosen} tab={tab} from={from} to={to} />}
      </div>
    </>
  );
}

function Summary({ rows, types, ops }: { rows: TypeSummary[]; types: string[]; ops: string[] }) {
  const most = Math.max(1, ...rows.map((row) => row.insert + row.update + row.delete));
  const toggle = (list: string[], value: string) => (list.includes(value) ? list.filter((each) => each !== value) : [...list, value]);
  return (
    <div class="summary" role="group" aria-label="Filter by type and kind of change">
      {rows.map((row) => (
        <Button key={row.entity_kind + row.type_name} aria-pressed={types.includes(row.type_name)} onClick={() => setParams({ type: toggle(types, row.type_name) })}>
          <TypeName name={row.type_name} kind={row.entity_kind} />
          <span class="counts">
            {OPS.map((op) => row[op] > 0 && <span key={op}><Sign op={op} />{count(row[op])}</span>)}
          </span>
          <span class="bar" aria-hidden="true">{OPS.map((op) => <i key={op} class={op} style={{ width: `${(100 * row[op]) / most}%` }} />)}</span>
        </Button>
      ))}
      <span class="row tight">
        {OPS.map((op) => (
          <Button key={op} aria-pressed={ops.includes(op)} onClick={() => setParams({ op: toggle(ops, op) })} label={`Only ${OP_NAMES[op]}`}><span class={`sign ${op}`} aria-hidden="true">{SIGNS[op]}</span></Button>
        ))}
      </span>
    </div>
  );
}

/** The properties in which the two states differ. */
export function changedProperties(change: Change): { name: string; before: Json; after: Json }[] {
  const before = { ...change.before?.properties, ...change.before?.endpoints } as Record<string, Json>;
  const after = { ...change.after?.properties, ...change.after?.endpoints } as Record<string, Json>;
  return [...new Set([...Object.keys(before), ...Object.keys(after)])].filter((name) => !sameValue(before[name], after[name])).map((name) => ({ name, before: before[name] ?? null, after: after[name] ?? null }));
}

const LINE = 24;
const MAX_LINES = 4;
const heightOf = (change: Change) => 38 + (change.op === "update" ? Math.min(changedProperties(change).length, MAX_LINES + 1) * LINE : 0);

/** What a person calls it: the id of a node, the ends of an edge. */
export function NameOf({ change }: { change: Change }) {
  const ends = (change.after ?? change.before)?.endpoints;
  if (!ends) return <bdi>{shown(change.id, 120)}</bdi>;
  return <><bdi>{shown(ends.from, 60)}</bdi> → <bdi>{shown(ends.to, 60)}</bdi></>;
}

function List({ list, total, selected }: { list: ChangeList; total: number; selected: string }) {
  const frame = useRef<HTMLDivElement>(null);
  const [scroll, setScroll] = useState({ top: 0, height: 500 });
  const { changes } = list;
  const tops = useMemo(() => {
    const result = new Float64Array(changes.length + 1);
    changes.forEach((change, at) => (result[at + 1] = result[at]! + heightOf(change)));
    return result;
  }, [changes]);
  const height = tops[changes.length]!;
  const at = (y: number) => {
    let low = 0;
    let high = changes.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (tops[middle + 1]! <= y) low = middle + 1;
      else high = middle;
    }
    return low;
  };
  useEffect(() => {
    const element = frame.current!;
    const update = () => setScroll({ top: element.scrollTop, height: element.clientHeight });
    update();
    element.addEventListener("scroll", update, { passive: true });
    const sizes = new ResizeObserver(update);
    sizes.observe(element);
    return () => (element.removeEventListener("scroll", update), sizes.disconnect());
  }, []);
  const first = Math.max(0, at(scroll.top) - 3);
  const last = Math.min(changes.length, at(scroll.top + scroll.height) + 4);
  useEffect(() => {
    if (!list.isComplete && !list.isLoading && last >= changes.length - 20) list.more();
  }, [last, changes.length, list.isComplete, list.isLoading]);
  const index = changes.findIndex((change) => keyOf(change) === selected);
  useEffect(() => {
    if (index >= 0 && (tops[index]! < frame.current!.scrollTop || tops[index + 1]! > frame.current!.scrollTop + frame.current!.clientHeight)) frame.current!.scrollTop = Math.max(0, tops[index]! - 60);
  }, [index]);
  const keys = (event: KeyboardEvent) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (!step) return;
    event.preventDefault();
    const next = changes[Math.max(0, Math.min(changes.length - 1, index + step))];
    if (next) setParams({ sel: keyOf(next) }, true);
    requestAnimationFrame(() => requestAnimationFrame(() => frame.current?.querySelector<HTMLElement>("[aria-selected=true]")?.focus()));
  };
  return (
    <div class="card fill">
      <div class="grid" ref={frame} role="listbox" aria-label="Changes" aria-busy={list.isLoading} onKeyDown={keys} tabIndex={changes.length ? -1 : 0}>
        <div style={{ height: `${height}px` }} role="presentation">
          {changes.slice(first, last).map((change, offset) => {
            const number = first + offset;
            const properties = change.op === "update" ? changedProperties(change) : [];
            return (
              <div key={keyOf(change)} class="change" role="option" aria-selected={number === index} aria-setsize={total || changes.length} aria-posinset={number + 1} tabIndex={number === (index < 0 ? first : index) ? 0 : -1} style={{ top: `${tops[number]}px`, height: `${heightOf(change)}px` }} onClick={() => setParams({ sel: keyOf(change) })} onKeyDown={(event) => event.key === "Enter" && setParams({ sel: keyOf(change) })}>
                <div class="row tight nowrap">
                  <Sign op={change.op} />
                  <TypeName name={change.type.name} kind={change.kind} />
                  <span class="ellipsis"><strong><NameOf change={change} /></strong></span>
                </div>
                {properties.length > 0 && (
                  <div class="values">
                    {properties.slice(0, MAX_LINES).map(({ name, before, after }) => (
                      <span key={name} class="ellipsis"><span class="muted">{name} </span><del><Value value={before} limit={70} /></del> → <ins><Value value={after} limit={70} /></ins></span>
                    ))}
                    {properties.length > MAX_LINES && <span class="muted small">{plural(properties.length - MAX_LINES, "more property", "more properties")}</span>}
                  </div>
                )}
              </div>
            );
          })}
        </div>
      </div>
      {list.isLoading && !changes.length && <Skeleton lines={8} />}
      {!list.isLoading && !changes.length && <Empty title="No change fits the filters"><Button onClick={() => setParams({ type: null, op: null })}>Remove the filters</Button></Empty>}
    </div>
  );
}

function Table({ list, selected }: { list: ChangeList; selected: string }) {
  const shownRows = list.changes.slice(0, 500);
  const cells = shownRows.flatMap((change) => {
    const properties = changedProperties(change);
    return properties.map((property, at) => ({ change, property, at, rows: properties.length }));
  });
  return (
    <div class="card scroll" tabIndex={0} aria-label="Values before and after">
      <table>
        <thead><tr><th></th><th>Type</th><th>Entity</th><th>Property</th><th>Before</th><th>After</th></tr></thead>
        <tbody>
          {cells.map(({ change, property, at, rows }) => (
            <tr key={`${keyOf(change)}.${property.name}`} aria-selected={keyOf(change) === selected} class={keyOf(change) === selected ? "chosen" : ""}>
              {at === 0 && <td rowSpan={rows}><Sign op={change.op} /></td>}
              {at === 0 && <td rowSpan={rows}><TypeName name={change.type.name} kind={change.kind} /></td>}
              {at === 0 && <td rowSpan={rows}><button type="button" class="link" onClick={() => setParams({ sel: keyOf(change) })}><NameOf change={change} /></button></td>}
              <td class="muted">{property.name}</td>
              <td>{change.op === "insert" ? "" : <Value value={property.before} limit={120} />}</td>
              <td>{change.op === "delete" ? "" : <Value value={property.after} limit={120} />}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {list.changes.length > shownRows.length && <p class="muted small body">The table shows the first {count(shownRows.length)} entities; choose types and kinds of change above, or use the list.</p>}
    </div>
  );
}

function JsonForm({ list }: { list: ChangeList }) {
  const few = list.changes.slice(0, 100);
  const text = JSON.stringify(few, null, 1);
  return (
    <div class="card fill"><div class="body fill">
      <div class="row">
        <span class="grow muted small">{list.changes.length > few.length || !list.isComplete ? `The first ${count(few.length)} changes` : plural(few.length, "change")}</span>
        <Button onClick={() => void copy(text, "The changes")}>Copy</Button>
        <Button onClick={() => saveFile("changes.json", JSON.stringify(list.changes, null, 1), "application/json")}>Save</Button>
      </div>
      <pre class="code scroll" tabIndex={0} aria-label="Changes as JSON">{text.length > 60_000 ? text.slice(0, 60_000) + "…" : text}</pre>
    </div></div>
  );
}

function ChangePanel({ change, tab, from, to }: { change: Change; tab: string; from: string; to: string }) {
  const edge = edgeTypes.value.get(change.type.name);
  const ends = (change.after ?? change.before)?.endpoints;
  return (
    <aside class="card scroll closable" aria-label="The change" aria-live="polite">
      <header>
        <Sign op={change.op} />
        <h2 class="ellipsis"><TypeName name={change.type.name} kind={change.kind} /></h2>
        <span class="spacer" />
        <MenuButton
          label="More"
          items={[
            ...(tab !== "picture" ? [{ text: "Show in the picture", run: () => setParams({ tab: "picture" }) }] : []),
            ...(tab !== "list" ? [{ text: "Show in the list", run: () => setParams({ tab: null }) }] : []),
            ...(tab !== "table" ? [{ text: "Show in the table", run: () => setParams({ tab: "table" }) }] : []),
            { text: "Open its row", run: () => go(link("browse", [change.type.name], { row: change.id, rev: change.op === "delete" ? from : to, at: null })) },
          ]}
        />
        <Button kind="plain" icon="close" label="Close the panel" onClick={() => setParams({ sel: null })} />
      </header>
      <div class="body panel-tab">
        <p class="wrap"><strong><NameOf change={change} /></strong> <span class="muted">{OP_NAMES[change.op]}</span></p>
        {ends && edge && <p class="row small"><EntityLink type={edge.from} id={ends.from} /> → <EntityLink type={edge.to} id={ends.to} /></p>}
        {change.op === "update" ? (
          changedProperties(change).map(({ name, before, after }) => (
            <div key={name}>
              <h3>{name}</h3>
              <p class="wrap"><Words before={before} after={after} /></p>
            </div>
          ))
        ) : (
          <Properties of={(change.after ?? change.before)!.properties} />
        )}
      </div>
    </aside>
  );
}

/** Old and new value; of long texts, only the words that differ are marked. */
export function Words({ before, after }: { before: Json; after: Json }) {
  if (typeof before === "string" && typeof after === "string" && before.length + after.length > 40) {
    return (
      <bdi>
        {wordDiff(shown(before, 20_000), shown(after, 20_000)).map((part, at) => (part.op === "same" ? <span key={at}>{part.text}</span> : part.op === "insert" ? <ins key={at}>{part.text}</ins> : <del key={at}>{part.text}</del>))}
      </bdi>
    );
  }
  return <><del><Value value={before} /></del> → <ins><Value value={after} /></ins></>;
}
