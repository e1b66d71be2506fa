/** The commits of all branches, newest first, with their lanes. Two of them can be compared. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { get, graphPath, pathOf } from "./api";
import { plural, shortId, shown } from "./format";
import { colours, commits as told, go, graph, link, param, place, readAgain, reads, refs, setParams, whyNot } from "./state";
import { Age, Button, copy, Dialog, Empty, Head, Icon, MenuButton, Problem, Skeleton, useKeys, useLoad, useWindow, useWrite } from "./ui";
import type { Commit, Log } from "./wire";

const ROW = 40;
const LANE = 16;
const PAGE = 200;
const MAX_LANES = 12;

interface Laid {
  commit: Commit;
  lane: number;
  /** Lanes that pass this row, and lanes that bend here: from a lane above to a lane below. */
  lines: { from: number; to: number; isNew: boolean }[];
}

/** The lane of each commit: a line runs from a commit down to its parents. */
export function layLanes(commits: readonly Commit[]): Laid[] {
  const lanes: (string | null)[] = [];
  return commits.map((commit) => {
    const id = commit.graph_commit_id;
    let lane = lanes.indexOf(id);
    if (lane < 0) {
      lane = lanes.indexOf(null);
      if (lane < 0) lane = lanes.push(null) - 1;
    }
    const before = [...lanes];
    lanes.forEach((wanted, at) => {
      if (wanted === id) lanes[at] = null;
    });
    const lines: Laid["lines"] = [];
    const parents = [commit.parent_commit_id, commit.merged_parent_commit_id].filter((parent): parent is string => !!parent);
    parents.forEach((parent, number) => {
      let target = lanes.indexOf(parent);
      if (target < 0) target = number === 0 && lanes[lane] === null ? lane : lanes.indexOf(null);
      if (target < 0) target = lanes.push(null) - 1;
      lanes[target] = parent;
      lines.push({ from: lane, to: target, isNew: true });
    });
    before.forEach((wanted, at) => {
      if (wanted && wanted !== id) lines.push({ from: at, to: at, isNew: false });
    });
    while (lanes.length && lanes.at(-1) === null) lanes.pop();
    return { commit, lane, lines };
  });
}

export function History() {
  const [pages, setPages] = useState<Log[]>([]);
  const [isMore, setMore] = useState(false);
  const asked = { ref: param("ref"), at: param("until") && new Date(param("until")).toISOString() };
  const first = useLoad([graph.value, reads.value, told.value, asked], (stop) => get<Log>(pathOf(graphPath(graph.value, "/log"), { limit: PAGE, ...asked }), stop));
  useEffect(() => {
    if (first.data) setPages([first.data]);
  }, [first.data]);
  const next = pages.at(-1)?.next_page_token;
  const more = () => {
    if (!next || isMore) return;
    setMore(true);
    get<Log>(pathOf(graphPath(graph.value, "/log"), { limit: 1000, ...asked, page_token: next })).then(
      (page) => setPages((old) => [...old, page]),
      () => {},
    ).finally(() => setMore(false));
  };
  const all = useMemo(() => pages.flatMap((page) => page.commits), [pages]);
  const names = useMemo(() => Object.assign({}, ...pages.map((page) => page.refs)) as Record<string, string[]>, [pages]);
  const laid = useMemo(() => layLanes(all), [all]);
  const words = param("text").toLowerCase();
  const [actor, kind] = [param("actor"), param("kind")];
  const rows = laid.filter(({ commit }) => (!actor || commit.actor_id === actor) && (!kind || commit.kind === kind) && (!words || `${commit.message ?? ""} ${commit.graph_commit_id} ${commit.actor_id ?? ""}`.toLowerCase().includes(words)));
  const isFiltered = !!(actor || kind || words);
  const marked = place.value.params.getAll("mark");
  const unique = (values: (string | null | undefined)[]) => [...new Set(values.filter((value): value is string => !!value))].sort();
  return (
    <>
      <Head title="History" text={all.length ? `${plural(all.length, "commit")}${next ? " so far" : ""}, all branches` : undefined}>
        {marked.length === 2 ? <Button kind="primary" onClick={() => compare(marked, all)}>Compare the two</Button> : <span class="muted small">Mark two commits to compare them</span>}
      </Head>
      <div class="row">
        <input type="search" data-filter aria-label="Filter by message, actor or id" placeholder="Message, actor, id" value={param("text")} onInput={(event) => setParams({ text: event.currentTarget.value }, true)} />
        <select aria-label="Branch" value={param("ref")} onChange={(event) => setParams({ ref: event.currentTarget.value })}>
          <option value="">all branches</option>
          {(refs.value.data?.branches ?? []).map((branch) => <option key={branch.name} value={branch.name}>{branch.name}</option>)}
        </select>
        <select aria-label="Actor" value={actor} onChange={(event) => setParams({ actor: event.currentTarget.value })}>
          <option value="">every actor</option>
          {unique(all.map((commit) => commit.actor_id)).map((name) => <option key={name} value={name}>{name}</option>)}
        </select>
        <select aria-label="Kind" value={kind} onChange={(event) => setParams({ kind: event.currentTarget.value })}>
          <option value="">every kind</option>
          {unique(all.map((commit) => commit.kind)).map((name) => <option key={name} value={name}>{name}</option>)}
        </select>
        <label class="row small">up to <input type="datetime-local" aria-label="Commits up to a time" value={param("until")} onChange={(event) => setParams({ until: event.currentTarget.value })} /></label>
      </div>
      <div class="card fill">
        {first.error ? <Problem error={first.error} /> : !pages.length ? <Skeleton lines={10} /> : rows.length ? <Lanes rows={rows} names={names} hasLanes={!isFiltered} marked={marked} isLoading={isMore} onEnd={more} /> : <Empty title="No commit fits"><Button onClick={() => setParams({ text: null, actor: null, kind: null, until: null })}>Remove the filters</Button></Empty>}
      </div>
    </>
  );
}

/** From the older to the newer one. */
function compare(marked: string[], all: Commit[]): void {
  const order = marked.map((id) => all.findIndex((commit) => commit.graph_commit_id === id));
  const [from, to] = order[0]! > order[1]! ? marked : [...marked].reverse();
  go(link("diff", [from!, to!]));
}

function Lanes({ rows, names, hasLanes, marked, isLoading, onEnd }: { rows: Laid[]; names: Record<string, string[]>; hasLanes: boolean; marked: string[]; isLoading: boolean; onEnd: () => void }) {
  const frame = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [active, setActive] = useState(0);
  const [menu, setMenu] = useState<{ kind: "branch" | "tag"; id: string } | null>(null);
  const view = useWindow(rows.length, ROW, frame);
  const width = hasLanes ? Math.min(MAX_LANES, Math.max(1, ...rows.slice(view.first, view.last).map((row) => Math.max(row.lane, ...row.lines.map((line) => Math.max(line.from, line.to))) + 1))) * LANE + 12 : 16;
  const tags = new Set(refs.value.data?.tags.map((tag) => tag.name));
  useEffect(() => {
    if (view.last >= rows.length - 10) onEnd();
  }, [view.last, rows.length]);
  const theme = document.documentElement.dataset.theme;
  useEffect(() => {
    const element = canvas.current;
    if (!element) return;
    const ratio = devicePixelRatio || 1;
    const height = (view.last - view.first) * ROW;
    element.width = width * ratio;
    element.height = height * ratio;
    element.style.width = `${width}px`;
    element.style.height = `${height}px`;
    element.style.top = `${view.offset(view.first)}px`;
    const context = element.getContext("2d")!;
    context.scale(ratio, ratio);
    const style = getComputedStyle(document.documentElement);
    const colour = (lane: number) => style.getPropertyValue(`--type-${lane % 8}`).trim();
    const x = (lane: number) => 14 + Math.min(lane, MAX_LANES - 1) * LANE;
    if (!hasLanes) return;
    context.lineWidth = 2;
    for (let at = Math.max(0, view.first - 1); at < view.last; at++) {
      const row = rows[at]!;
      const y = (at - view.first + 0.5) * ROW;
      for (const line of row.lines) {
        context.strokeStyle = colour(line.isNew ? Math.max(line.from, line.to) : line.from);
        context.beginPath();
        context.moveTo(x(line.from), y);
        if (line.from === line.to) context.lineTo(x(line.to), y + ROW);
        else context.bezierCurveTo(x(line.from), y + ROW * 0.6, x(line.to), y + ROW * 0.4, x(line.to), y + ROW);
        context.stroke();
      }
    }
    for (let at = view.first; at < view.last; at++) {
      const row = rows[at]!;
      context.beginPath();
      context.arc(x(row.lane), (at - view.first + 0.5) * ROW, row.commit.merged_parent_commit_id ? 4 : 5, 0, 2 * Math.PI);
      context.fillStyle = row.commit.merged_parent_commit_id ? style.getPropertyValue("--panel") : colour(row.lane);
      context.strokeStyle = colour(row.lane);
      context.fill();
      context.stroke();
    }
  }, [rows, view.first, view.last, width, theme, hasLanes, colours.value]);
  const mark = (id: string) => setParams({ mark: marked.includes(id) ? marked.filter((other) => other !== id) : [...marked, id].slice(-2) }, true);
  const keys = (event: KeyboardEvent) => {
    if ((event.target as HTMLElement).dataset.row === undefined) return;
    const steps: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: 12, PageUp: -12, Home: -rows.length, End: rows.length };
    if (event.key in steps) {
      const next = Math.max(0, Math.min(rows.length - 1, active + steps[event.key]!));
      setActive(next);
      view.reveal(next);
      requestAnimationFrame(() => requestAnimationFrame(() => frame.current?.querySelector<HTMLElement>(`[data-row="${next}"]`)?.focus({ preventScroll: true })));
    } else if (event.key === " ") mark(rows[active]!.commit.graph_commit_id);
    else if (event.key === "Enter") go(link("commit", [rows[active]!.commit.graph_commit_id]));
    else return;
    event.preventDefault();
  };
  useKeys((event) => event.key === "d" && marked.length === 2 && (compare(marked, rows.map((row) => row.commit)), true));
  return (
    <div class="lanes" ref={frame} role="grid" aria-label="Commits" aria-rowcount={rows.length} aria-busy={isLoading} onKeyDown={keys}>
      <div style={{ height: `${view.height}px` }} role="presentation">
        <canvas ref={canvas} aria-hidden="true" />
        {rows.slice(view.first, view.last).map(({ commit }, offset) => {
          const number = view.first + offset;
          const id = commit.graph_commit_id;
          const here = names[id] ?? [];
          return (
            <div key={id} class="commit" role="row" data-row={number} aria-rowindex={number + 1} aria-selected={marked.includes(id)} tabIndex={number === Math.min(Math.max(active, view.first), view.last - 1) ? 0 : -1} style={{ top: `${view.offset(number)}px`, paddingLeft: `${width}px` }} onFocus={() => setActive(number)} onClick={() => go(link("commit", [id]))}>
              <span role="gridcell"><input type="checkbox" checked={marked.includes(id)} aria-label={`Mark ${shortId(id)}`} onClick={(event) => event.stopPropagation()} onChange={() => mark(id)} tabIndex={-1} /></span>
              <span role="gridcell" class="kind" title={commit.kind ?? ""}><Icon name={commit.merged_parent_commit_id ? "merge" : commit.kind === "schema" ? "schema" : (commit.kind ?? "")} /><span class="visually-hidden">{commit.kind}</span></span>
              <span role="gridcell" class="message ellipsis"><bdi>{shown(commit.message?.split("\n")[0] ?? commit.kind ?? "", 140)}</bdi></span>
              {here.length > 0 && <span role="gridcell" class="row tight nowrap refs">{here.slice(0, 3).map((name) => <span key={name} class={`chip ${tags.has(name) ? "tag" : "branch"}`}>{name}</span>)}{here.length > 3 && <span class="chip">+{here.length - 3}</span>}</span>}
              <span role="gridcell" class="actor">{commit.actor_id ?? ""}</span>
              <span role="gridcell"><Age commit={commit} /></span>
              <span role="gridcell">
                <MenuButton
                  label={`More about ${shortId(id)}`}
                  items={[
                    { text: "Open", run: () => go(link("commit", [id])) },
                    { text: "Browse at this commit", run: () => go(link("browse", [], { rev: id, at: null })) },
                    { text: "Query at this commit", run: () => go(link("query", [], { rev: id, at: null })) },
                    { text: "Compare with main", run: () => go(link("diff", [id, "main"])) },
                    { text: "Branch here", why: whyNot("branch_create"), run: () => setMenu({ kind: "branch", id }) },
                    { text: "Tag here", why: whyNot("tag_create"), run: () => setMenu({ kind: "tag", id }) },
                    { text: "Copy the id", run: () => void copy(id, "The id") },
                  ]}
                />
              </span>
            </div>
          );
        })}
      </div>
      {menu && <NameDialog {...menu} onClose={() => setMenu(null)} />}
    </div>
  );
}

export function NameDialog({ kind, id, onClose }: { kind: "branch" | "tag"; id: string; onClose: () => void }) {
  const [name, setName] = useState("");
  const { run, isBusy, problem } = useWrite<unknown>(() => {
    onClose();
    readAgain();
  });
  return (
    <Dialog title={kind === "branch" ? "Branch here" : "Tag here"} onClose={onClose}>
      <form class="panel-tab" onSubmit={(event) => { event.preventDefault(); void run({ method: "POST", path: graphPath(graph.value, kind === "branch" ? "/branches" : "/tags"), body: kind === "branch" ? { name, from: id } : { name, at: id } }); }}>
        <p class="muted small">At {shortId(id)}</p>
        <label class="field">Name<input type="text" value={name} onInput={(event) => setName(event.currentTarget.value)} required autofocus /></label>
        {problem}
        <div><Button kind="primary" type="submit" why={isBusy ? "it is being made" : ""}>Make the {kind}</Button></div>
      </form>
    </Dialog>
  );
}
