/** Walk through the graph from a node: expand by type with numbers, filter, compare with another revision. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { get, graphPath, pathOf, saveFile, type Fields } from "./api";
import { EntityPanel } from "./entity";
import { count, plural, shown } from "./format";
import { findNodes } from "./panels";
import { Picture, type PictureEdge, type PictureNode } from "./picture";
import { asApiError, catalog, commitId, edgeTypes, graph, link, nodeTypes, param, place, refs, setParams } from "./state";
import { Button, Empty, Head, Problem, Sign, Skeleton, TypeName, useKeys, useLater, useLoad } from "./ui";
import type { Diff, EdgeCount, EntityState, NearEdge, Neighbours, Op } from "./wire";
import type { ApiError } from "./api";

const STEP = 25;
const MAX_NODES = 2000;

interface Shown {
  type: string;
  id: string;
  label: string;
  properties: Fields;
}

interface Scene {
  nodes: Map<string, Shown>;
  edges: Map<string, NearEdge>;
  counts: Map<string, EdgeCount[]>;
}

const emptyScene = (): Scene => ({ nodes: new Map(), edges: new Map(), counts: new Map() });
const splitKey = (key: string): [string, string] => {
  const at = key.indexOf(":");
  return [key.slice(0, at), key.slice(at + 1)];
};

/** What a person calls it, as the server names neighbours: a name or title, the first text, or its id. */
function nameOf(type: string, id: string, properties: Fields): string {
  const texts = (nodeTypes.value.get(type)?.properties ?? []).filter((property) => property.scalar === "String" && !property.list).map((property) => property.name);
  const named = ["name", "title", "label"].filter((name) => texts.includes(name));
  for (const name of [...named, ...texts]) if (properties[name]) return String(properties[name]);
  return id;
}

export function Explore() {
  if (!catalog.value.data) return <Skeleton lines={10} />;
  if (!catalog.value.data.nodes.some((node) => node.entity_count)) return <><Head title="Explore" /><Empty title="There is no node yet"><a class="button" href={link("loads")}>Load a file</a></Empty></>;
  return <Walk key={commitId.value} />;
}

function Walk() {
  const name = graph.value;
  const commit = commitId.value;
  const starts = place.value.params.getAll("node");
  const selected = param("sel") || starts[0] || "";
  const [scene, setScene] = useState<Scene>(emptyScene);
  const past = useRef<Scene[]>([]);
  const [error, setError] = useState<ApiError | null>(null);
  const [off, setOff] = useState<Set<string>>(new Set());
  const [sizing, setSizing] = useState("");
  const naming = param("name");
  const [pinned, setPinned] = useState<Set<string>>(new Set());
  const [slice, setSlice] = useState<Slice | null>(null);
  const pathFrom = param("path");
  const [isTable, setTable] = useState(true);
  const other = param("with");

  const change = (next: Scene) => {
    past.current = [...past.current.slice(-30), scene];
    setScene(next);
  };
  const absorb = (into: Scene, answer: Neighbours, key: string): Scene => {
    const next = { nodes: new Map(into.nodes), edges: new Map(into.edges), counts: new Map(into.counts) };
    for (const node of answer.nodes) if (next.nodes.size < MAX_NODES) next.nodes.set(`${node.type}:${node.id}`, node);
    for (const edge of answer.edges) next.edges.set(`${edge.type}:${edge.id}`, edge);
    if (answer.counts.length) next.counts.set(key, answer.counts);
    return next;
  };
  const near = (key: string, options: { edge?: string; direction?: string; limit?: number }, stop?: AbortSignal) => {
    const [type, id] = splitKey(key);
    return get<Neighbours>(pathOf(graphPath(name, "/entity/neighbours"), { type, id, rev: commit, limit: options.limit ?? STEP, edge: options.edge, direction: options.direction }), stop);
  };
  useEffect(() => {
    const stop = new AbortController();
    void (async () => {
      let next = scene;
      for (const key of starts.filter((each) => !scene.nodes.has(each) || !scene.counts.has(each))) {
        const [type, id] = splitKey(key);
        try {
          const [state, answer] = await Promise.all([get<EntityState>(pathOf(graphPath(name, "/entity"), { type, id, rev: commit }), stop.signal), near(key, {}, stop.signal)]);
          next = absorb({ ...next, nodes: new Map(next.nodes).set(key, { type, id, label: nameOf(type, id, state.properties), properties: state.properties }) }, answer, key);
        } catch (problem) {
          if (!stop.signal.aborted) setError(asApiError(problem));
        }
      }
      if (!stop.signal.aborted && next !== scene) change(next);
    })();
    return () => stop.abort();
  }, [starts.join("\0")]);

  const visibleEdges = (key: string, edge: string, direction: string) => [...scene.edges.values()].filter((each) => each.type === edge && `${direction === "out" ? edgeTypes.value.get(edge)?.from : edgeTypes.value.get(edge)?.to}:${direction === "out" ? each.from : each.to}` === key).length;
  const expand = async (key: string, edge?: string, direction?: string) => {
    try {
      const already = edge && direction ? visibleEdges(key, edge, direction) : 0;
      change(absorb(scene, await near(key, { edge, direction, limit: Math.min(500, already + STEP) }), edge ? "" : key));
      if (!scene.counts.has(key)) void near(key, { limit: 1 }).then((answer) => setScene((old) => ({ ...old, counts: new Map(old.counts).set(key, answer.counts) })), () => {});
    } catch (problem) {
      setError(asApiError(problem));
    }
  };
  const chosenCounts = scene.counts.get(selected);
  useEffect(() => {
    if (selected && scene.nodes.has(selected) && !chosenCounts) void near(selected, { limit: 1 }).then((answer) => setScene((old) => ({ ...old, counts: new Map(old.counts).set(selected, answer.counts) })), () => {});
  }, [selected, scene.nodes.size]);
  const hide = (key: string) => {
    const nodes = new Map(scene.nodes);
    nodes.delete(key);
    change({ ...scene, nodes });
    setParams({ node: starts.filter((each) => each !== key), sel: null }, true);
  };
  const pin = (key: string) => setPinned((old) => { const next = new Set(old); if (!next.delete(key)) next.add(key); return next; });
  const undo = () => {
    const last = past.current.pop();
    if (last) setScene(last);
  };
  useKeys((event) => {
    if (event.key === "u") undo();
    else if (event.key === "h" && event.shiftKey && selected) hide(selected);
    else if (event.key === "x" && selected) pin(selected);
    else return false;
    return true;
  });

  const changes = useLoad([other, commit], async (stop) => {
    if (!other) return null;
    const { changes } = await get<Diff>(pathOf(graphPath(name, "/diff"), { from: other, to: commit, limit: 8000 }), stop);
    return new Map((changes ?? []).map((each) => [`${each.type.name}:${each.id}`, each.op as Op]));
  });
  const ops = changes.data;
  const drawn = useMemo(() => {
    const degree = new Map<string, number>();
    const edges: PictureEdge[] = [];
    for (const [key, edge] of scene.edges) {
      const type = edgeTypes.value.get(edge.type);
      if (!type || off.has(edge.type)) continue;
      const [source, target] = [`${type.from}:${edge.from}`, `${type.to}:${edge.to}`];
      if (!scene.nodes.has(source) || !scene.nodes.has(target)) continue;
      edges.push({ key, source, target, label: edge.type, op: ops?.get(key), isFaded: !!ops && !ops.has(key) });
      degree.set(source, (degree.get(source) ?? 0) + 1);
      degree.set(target, (degree.get(target) ?? 0) + 1);
    }
    const numbers = [...scene.nodes.values()].map((node) => Number(node.properties[sizing])).filter((value) => Number.isFinite(value));
    const most = Math.max(1, ...numbers);
    const onPath = pathFrom && pathFrom !== selected ? shortestPath(edges, pathFrom, selected) : null;
    if (onPath?.length) for (const edge of edges) edge.isFaded = !onPath.includes(edge.key);
    const nodesOnPath = new Set(onPath?.length ? edges.filter((edge) => onPath.includes(edge.key)).flatMap((edge) => [edge.source, edge.target]) : []);
    const nodes: PictureNode[] = [...scene.nodes].filter(([, node]) => !off.has(node.type) && inSlice(node.properties, slice)).map(([key, node]) => ({
      key, type: node.type, label: String(node.properties[naming] ?? node.label), op: ops?.get(key), isPinned: pinned.has(key), isFaded: (!!ops && !ops.has(key)) || (nodesOnPath.size > 0 && !nodesOnPath.has(key)),
      size: sizing === "" ? 9 : sizing === "degree" ? 6 + Math.min(16, 2 * Math.sqrt(degree.get(key) ?? 0) * 2) : 6 + 14 * Math.sqrt(Math.max(0, Number(node.properties[sizing]) || 0) / most),
    }));
    const kept = new Set(nodes.map((node) => node.key));
    return { nodes, edges: edges.filter((edge) => kept.has(edge.source) && kept.has(edge.target)), path: onPath };
  }, [scene, off, ops, sizing, naming, pinned, slice, pathFrom, selected]);
  const types = [...new Set([...scene.nodes.values()].map((node) => node.type))];
  const edgeNames = [...new Set([...scene.edges.values()].map((edge) => edge.type))];
  const textual = [...new Set(types.flatMap((type) => (nodeTypes.value.get(type)?.properties ?? []).filter((property) => property.scalar === "String" && !property.list).map((property) => property.name)))];
  const numeric = [...new Set(types.flatMap((type) => (nodeTypes.value.get(type)?.properties ?? []).filter((property) => /^[IUF]\d+$/.test(property.scalar) && !property.list).map((property) => property.name)))];
  const sliceable = [...new Set(types.flatMap((type) => (nodeTypes.value.get(type)?.properties ?? []).filter((property) => /^([IUF]\d+|Date|DateTime)$/.test(property.scalar) && !property.list).map((property) => property.name)))];
  const toggle = (each: string) => setOff((old) => { const next = new Set(old); if (next.has(each)) next.delete(each); else next.add(each); return next; });
  const names = [...(refs.value.data?.branches ?? []), ...(refs.value.data?.tags ?? [])].map((ref) => ref.name);
  return (
    <>
      <Head title="Explore" text={scene.nodes.size ? `${plural(drawn.nodes.length, "node")}, ${plural(drawn.edges.length, "edge")}${scene.nodes.size >= MAX_NODES ? ` (no more than ${count(MAX_NODES)})` : ""}` : "Start with a node; expand what is near."}>
        <Search onChoose={(key) => setParams({ node: [...starts.filter((each) => each !== key), key], sel: key })} />
      </Head>
      {error && <Problem error={error} />}
      {!starts.length ? (
        <Starts onChoose={(key) => setParams({ node: [key], sel: key })} />
      ) : (
        <div class="split">
          <div class="fill">
            <div class="row scene-controls">
              <Button onClick={undo} why={past.current.length ? "" : "nothing was done yet"}>Undo</Button>
              <select aria-label="Size" value={sizing} onChange={(event) => setSizing(event.currentTarget.value)}><option value="">one size</option><option value="degree">size: by edges</option>{numeric.map((each) => <option key={each} value={each}>size: {each}</option>)}</select>
              <select aria-label="Compare with" value={other} onChange={(event) => setParams({ with: event.currentTarget.value })}><option value="">compare…</option>{[...new Set([...names, other].filter(Boolean))].map((each) => <option key={each} value={each}>with {each}</option>)}</select>
              <select aria-label="Slice by" value={slice?.property ?? ""} onChange={(event) => setSlice(event.currentTarget.value ? { property: event.currentTarget.value, low: -Infinity, high: Infinity } : null)}><option value="">slice…</option>{sliceable.map((each) => <option key={each} value={each}>slice: {each}</option>)}</select>
              {textual.length > 1 && <select aria-label="Name by" value={naming} onChange={(event) => setParams({ name: event.currentTarget.value }, true)}><option value="">names</option>{textual.map((each) => <option key={each} value={each}>names: {each}</option>)}</select>}
              <Button aria-pressed={isTable} onClick={() => setTable(!isTable)}>Table</Button>
            </div>
            {slice && <Slicer slice={slice} values={[...scene.nodes.values()].map((node) => numberOf(node.properties[slice.property])).filter((value) => value !== null)} onChange={setSlice} />}
            {drawn.path && <p class="small" role="status">{drawn.path.length ? `${plural(drawn.path.length, "edge")} from ${shown(splitKey(pathFrom)[1], 40)} to ${shown(splitKey(selected)[1], 40)}` : `No path between the two in what is shown`} <Button onClick={() => setParams({ path: null }, true)}>Forget the path</Button></p>}
            <div class="fill picture-holder">
              <Picture nodes={drawn.nodes} edges={drawn.edges} selected={selected} onSelect={(key) => key && setParams({ sel: key }, true)} onExpand={(key) => void expand(key)} label="The neighbourhood" tools={<Button onClick={() => saveFile("scene.json", JSON.stringify({ nodes: [...scene.nodes.values()], edges: [...scene.edges.values()] }, null, 1), "application/json")}>JSON</Button>} />
              <div class="legend" role="group" aria-label="Types in the picture">
                {types.map((type) => <Button key={type} aria-pressed={!off.has(type)} onClick={() => toggle(type)}><TypeName name={type} kind="node" /></Button>)}
                {edgeNames.map((type) => <Button key={type} aria-pressed={!off.has(type)} onClick={() => toggle(type)}><TypeName name={type} kind="edge" /></Button>)}
              </div>
            </div>
            {isTable && <SceneTable nodes={drawn.nodes} edges={drawn.edges} selected={selected} onSelect={(key) => setParams({ sel: key }, true)} />}
          </div>
          {selected && scene.nodes.has(selected) ? (
            <EntityPanel key={selected} type={splitKey(selected)[0]} id={splitKey(selected)[1]}>
              <div class="panel-tab">
                {(chosenCounts ?? []).filter((each) => each.count > 0).map((each) => {
                  const here = visibleEdges(selected, each.edge, each.direction);
                  return (
                    <div key={each.edge + each.direction} class="row small nowrap">
                      <span class="grow ellipsis">{each.direction === "out" ? "→" : "←"} {each.edge} <span class="muted">{each.type}</span></span>
                      <Button why={here >= each.count ? "all are shown" : ""} onClick={() => void expand(selected, each.edge, each.direction)}>{here >= each.count ? `all ${count(each.count)}` : `+${Math.min(STEP, each.count - here)} of ${count(each.count)}`}</Button>
                    </div>
                  );
                })}
                <div class="row">
                  <Button onClick={() => hide(selected)}>Hide</Button>
                  <Button aria-pressed={pinned.has(selected)} onClick={() => pin(selected)}>Pin</Button>
                  <Button aria-pressed={pathFrom === selected} onClick={() => setParams({ path: pathFrom === selected ? null : selected }, true)}>Path from here</Button>
                </div>
              </div>
            </EntityPanel>
          ) : (
            <div class="card"><Empty title="Choose a node">Its values, edges and versions are shown here.</Empty></div>
          )}
        </div>
      )}
    </>
  );
}

/** The edges of a shortest path between two nodes, in any direction, along what is shown; none if there is no path. */
export function shortestPath(edges: readonly PictureEdge[], from: string, to: string): string[] {
  const near = new Map<string, [string, string][]>();
  const join = (one: string, other: string, edge: string) => near.set(one, [...(near.get(one) ?? []), [other, edge]]);
  for (const edge of edges) join(edge.source, edge.target, edge.key), join(edge.target, edge.source, edge.key);
  const cameBy = new Map<string, [string, string] | null>([[from, null]]);
  for (const node of cameBy.keys()) {
    for (const [next, edge] of near.get(node) ?? []) if (!cameBy.has(next)) cameBy.set(next, [node, edge]);
    if (cameBy.has(to)) break;
  }
  const path: string[] = [];
  for (let step = cameBy.get(to); step; step = cameBy.get(step[0])) path.unshift(step[1]);
  return path;
}

interface Slice {
  property: string;
  low: number;
  high: number;
}

const numberOf = (value: Fields[string] | undefined): number | null => {
  const number = typeof value === "number" ? value : typeof value === "string" ? (/^-?\d+$/.test(value) ? Number(value) : Date.parse(value)) : NaN;
  return Number.isFinite(number) ? number : null;
};

/** A node that has no value of the property stays: the slice says nothing about it. */
const inSlice = (properties: Fields, slice: Slice | null): boolean => {
  const value = slice && numberOf(properties[slice.property]);
  return value === null || (value >= slice!.low && value <= slice!.high);
};

const BARS = 24;

/** How many nodes have which value of a property; two handles choose a range, and the picture shows the nodes in it. */
function Slicer({ slice, values, onChange }: { slice: Slice; values: number[]; onChange: (slice: Slice) => void }) {
  if (!values.length) return <p class="muted small">No node shown has {slice.property}.</p>;
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const width = (most - least || 1) / BARS;
  const bars = new Array<number>(BARS).fill(0);
  for (const value of values) bars[Math.min(BARS - 1, Math.floor((value - least) / width))]!++;
  const highest = Math.max(...bars);
  const [low, high] = [Math.max(slice.low, least), Math.min(slice.high, most)];
  const isTime = least > 1e10;
  const name = (value: number) => (isTime ? new Date(value).toISOString().slice(0, 10) : String(Math.round(value * 100) / 100));
  const handle = (label: string, value: number, set: (value: number) => Slice) => <input type="range" aria-label={`${label} ${slice.property}`} aria-valuetext={name(value)} min={least} max={most} step={width / 10} value={value} onInput={(event) => onChange(set(Number(event.currentTarget.value)))} />;
  return (
    <div class="slicer" role="group" aria-label={`Slice by ${slice.property}`}>
      <div class="bars" aria-hidden="true">{bars.map((number, at) => <i key={at} class={least + at * width <= high && least + (at + 1) * width >= low ? "" : "out"} style={{ height: `${(100 * number) / highest}%` }} />)}</div>
      {handle("Lowest", low, (value) => ({ ...slice, low: Math.min(value, high), high }))}
      {handle("Highest", high, (value) => ({ ...slice, low, high: Math.max(value, low) }))}
      <span class="small muted">{slice.property} {name(low)} to {name(high)}, {plural(values.filter((value) => value >= low && value <= high).length, "node")}</span>
    </div>
  );
}

function Search({ onChoose }: { onChoose: (key: string) => void }) {
  const [text, setText] = useState("");
  const words = useLater(text.trim(), 150);
  const found = useLoad([words, commitId.value], (stop) => (words ? findNodes(graph.value, commitId.value, catalog.value.data!.nodes, words, stop, 8) : Promise.resolve([])));
  const list = words ? (found.data ?? []) : [];
  return (
    <span class="anchor">
      <input type="search" data-filter aria-label="Find a node" placeholder="Find a node" value={text} onInput={(event) => setText(event.currentTarget.value)} onKeyDown={(event) => { if (event.key === "Enter" && list[0]) { onChoose(`${list[0].type}:${list[0].id}`); setText(""); } if (event.key === "Escape") setText(""); }} />
      {words && !found.isLoading && (
        <div class="menu" style={{ top: "100%", right: 0 }} role="group" aria-label="Nodes found">
          {list.map((node) => <button key={node.type + node.id} type="button" class="option" onClick={() => { onChoose(`${node.type}:${node.id}`); setText(""); }}><TypeName name={node.type} kind="node" /><bdi class="ellipsis">{shown(node.text, 60)}</bdi></button>)}
          {!list.length && <p class="muted small option">Nothing has this text.</p>}
        </div>
      )}
    </span>
  );
}

function Starts({ onChoose }: { onChoose: (key: string) => void }) {
  const few = catalog.value.data!.nodes.filter((node) => node.entity_count).slice(0, 6);
  const load = useLoad([commitId.value], (stop) => Promise.all(few.map(async (node) => ({ node, rows: (await get<{ rows: Fields[] }>(pathOf(graphPath(graph.value, `/entities/${encodeURIComponent(node.name)}`), { rev: commitId.value, limit: 5 }), stop)).rows }))));
  return (
    <div class="cards">
      {load.error && <Problem error={load.error} />}
      {!load.data && !load.error && <Skeleton />}
      {(load.data ?? []).map(({ node, rows }) => (
        <section key={node.name} class="card"><header><h2><TypeName name={node.name} kind="node" /></h2><span class="spacer" /><span class="muted small">{count(node.entity_count)}</span></header><div class="body"><ul class="list">{rows.map((row) => <li key={String(row.id)}><button type="button" class="link" onClick={() => onChoose(`${node.name}:${String(row.id)}`)}><bdi>{shown(nameOf(node.name, String(row.id), row), 80)}</bdi></button></li>)}</ul></div></section>
      ))}
    </div>
  );
}

function SceneTable({ nodes, edges, selected, onSelect }: { nodes: PictureNode[]; edges: PictureEdge[]; selected: string; onSelect: (key: string) => void }) {
  const degree = new Map<string, number>();
  for (const edge of edges) for (const key of [edge.source, edge.target]) degree.set(key, (degree.get(key) ?? 0) + 1);
  return (
    <div class="card scroll scene-table" tabIndex={0} role="group" aria-label="What the picture shows">
      <table>
        <thead><tr><th></th><th>Type</th><th>Node</th><th class="number">Edges shown</th></tr></thead>
        <tbody>
          {nodes.slice(0, 300).map((node) => (
            <tr key={node.key} class={node.key === selected ? "chosen" : ""}>
              <td>{node.op ? <Sign op={node.op} /> : ""}</td>
              <td><TypeName name={node.type} kind="node" /></td>
              <td><button type="button" class="link" onClick={() => onSelect(node.key)}><bdi>{shown(node.label, 60)}</bdi></button></td>
              <td class="number">{count(degree.get(node.key) ?? 0)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
