/** The types of a graph: as a picture, as text, and compared with another revision. */
import dagre from "@dagrejs/dagre";
import { useMemo, useRef, useState } from "preact/hooks";
import { get, graphPath, pathOf, saveFile } from "./api";
import { count, plural, shortId, shown } from "./format";
import { catalog, colourOf, commitId, graph, link, param, refs, setParams } from "./state";
import { Button, CommitLink, copy, Empty, Head, Loaded, Sign, Tabs, TypeName, useLoad } from "./ui";
import type { Catalog, Constraint, EdgeInfo, NodeInfo, Op, Property } from "./wire";

const MAX_LINES = 9;

export function Schema() {
  const tab = param("tab") || "picture";
  return (
    <>
      <Head title="Schema" text={catalog.value.data && <>{plural(catalog.value.data.nodes.length, "node type")}, {plural(catalog.value.data.edges.length, "edge type")} at commit <CommitLink id={commitId.value} /></>}>
        {tab === "picture" && <input type="search" data-filter aria-label="Find a type or property" placeholder="Find a type or property" value={param("find")} onInput={(event) => setParams({ find: event.currentTarget.value }, true)} />}
      </Head>
      <Tabs label="Form" names={[["picture", "Picture"], ["text", "Text"], ["compare", "Compare"]]} value={tab} onChange={(name) => setParams({ tab: name === "picture" ? null : name })} />
      <Loaded load={catalog.value}>{(data) => (tab === "text" ? <Text /> : tab === "compare" ? <Compare /> : data.nodes.length ? <Drawing data={data} /> : <Empty title="The graph has no types">Declare them: <code>omnigraph schema apply</code></Empty>)}</Loaded>
    </>
  );
}

interface Box {
  node: NodeInfo;
  lines: string[];
  x: number;
  y: number;
  width: number;
  height: number;
}

function mark(property: Property, node: NodeInfo): string {
  const words = [node.key.includes(property.name) ? "key" : "", node.constraints.some((rule) => rule.kind === "unique" && rule.fields.includes(property.name)) ? "unique" : ""].filter(Boolean);
  return `${property.name}: ${property.type}${words.length ? ` · ${words.join(" · ")}` : ""}`;
}

/** Smaller than this, its texts cannot be read: a larger schema scrolls. */
const MIN_SCALE = 0.85;

function layout(data: Catalog): { boxes: Box[]; lines: { edge: EdgeInfo; points: { x: number; y: number }[]; label: { x: number; y: number } }[]; width: number; height: number } {
  const picture = new dagre.graphlib.Graph({ multigraph: true });
  picture.setGraph({ rankdir: "LR", nodesep: 36, ranksep: 110, marginx: 24, marginy: 24 });
  picture.setDefaultEdgeLabel(() => ({}));
  const boxes = new Map<string, Box>();
  for (const node of data.nodes) {
    const lines = node.properties.slice(0, MAX_LINES).map((property) => mark(property, node));
    if (node.properties.length > MAX_LINES) lines.push(`… ${node.properties.length - MAX_LINES} more`);
    const width = Math.max(140, ...lines.map((line) => line.length * 7.3 + 28), node.name.length * 9 + 90);
    const height = 40 + lines.length * 18;
    boxes.set(node.name, { node, lines, x: 0, y: 0, width, height });
    picture.setNode(node.name, { width, height });
  }
  for (const edge of data.edges) if (edge.from !== edge.to) picture.setEdge(edge.from, edge.to, { width: edge.name.length * 7 + 40, height: 18, labelpos: "c" }, edge.name);
  dagre.layout(picture);
  for (const [name, box] of boxes) Object.assign(box, { x: picture.node(name).x, y: picture.node(name).y });
  const loops = new Map<string, number>();
  const lines = data.edges.map((edge) => {
    if (edge.from !== edge.to) {
      const laid = picture.edge(edge.from, edge.to, edge.name) as { points: { x: number; y: number }[]; x: number; y: number };
      return { edge, points: laid.points, label: { x: laid.x, y: laid.y } };
    }
    const box = boxes.get(edge.from)!;
    const number = loops.get(edge.from) ?? 0;
    loops.set(edge.from, number + 1);
    const reach = 34 + number * 22;
    const [right, top] = [box.x + box.width / 2, box.y - box.height / 2];
    return { edge, points: [{ x: right - 40, y: top }, { x: right - 30, y: top - reach }, { x: right + reach, y: top - reach }, { x: right + reach, y: top + 12 }, { x: right, y: top + 20 }], label: { x: right - 8, y: top - reach * 0.8 - 4 } };
  });
  const highest = Math.min(0, ...lines.flatMap((line) => line.points.map((point) => point.y - 20)));
  for (const box of boxes.values()) box.y -= highest;
  for (const line of lines) {
    for (const point of line.points) point.y -= highest;
    line.label.y -= highest;
  }
  const size = picture.graph();
  return { boxes: [...boxes.values()], lines, width: (size.width ?? 300) + 80, height: (size.height ?? 200) - highest + 12 };
}

const cardinality = (edge: EdgeInfo): string => (edge.min_out === 0 && edge.max_out === null ? "" : ` ${edge.min_out}..${edge.max_out ?? "*"}`);

function Drawing({ data }: { data: Catalog }) {
  const laid = useMemo(() => layout(data), [data]);
  const frame = useRef<SVGSVGElement>(null);
  const selected = param("type");
  const find = param("find").toLowerCase();
  const fits = (node: NodeInfo) => !find || node.name.toLowerCase().includes(find) || node.properties.some((property) => property.name.toLowerCase().includes(find));
  const info = data.nodes.find((node) => node.name === selected) ?? data.edges.find((edge) => edge.name === selected);
  const saveSvg = () => {
    const copyOf = frame.current!.cloneNode(true) as SVGSVGElement;
    const style = getComputedStyle(document.documentElement);
    const inlined = new XMLSerializer().serializeToString(copyOf).replace(/var\((--[\w-]+)\)/g, (_, name: string) => style.getPropertyValue(name).trim());
    const rules = `text{font:12px monospace;fill:${style.getPropertyValue("--text")}} .title{font-weight:600} rect{fill:${style.getPropertyValue("--panel")};stroke:#8a93a3} path.link{fill:none;stroke:#8a93a3}`;
    saveFile("schema.svg", inlined.replace(/(<svg[^>]*>)/, `$1<style>${rules}</style>`), "image/svg+xml");
  };
  return (
    <div class={info ? "split" : "fill"}>
      <div class="card fill">
        <div class="scroll schema" tabIndex={0} role="group" aria-label="Types and edges">
          <svg ref={frame} width={laid.width} height={laid.height} style={{ minWidth: `${Math.round(laid.width * MIN_SCALE)}px` }} viewBox={`0 0 ${laid.width} ${laid.height}`} xmlns="http://www.w3.org/2000/svg" role="group" aria-label="The schema as a picture">
            <defs><marker id="pointer" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path class="pointer" d="M0 0 8 4 0 8z" /></marker></defs>
            {laid.lines.map(({ edge, points, label }) => {
              const [start, ...rest] = points;
              const path = `M${start!.x} ${start!.y}` + (rest.length === 4 && edge.from === edge.to ? `C${rest[0]!.x} ${rest[0]!.y} ${rest[1]!.x + 20} ${rest[1]!.y} ${rest[3]!.x} ${rest[3]!.y}` : rest.map((point, at) => (at === rest.length - 1 ? `L${point.x} ${point.y}` : `Q${point.x} ${point.y} ${(point.x + rest[at + 1]!.x) / 2} ${(point.y + rest[at + 1]!.y) / 2}`)).join(""));
              const isDim = find && !edge.name.toLowerCase().includes(find);
              return (
                <g key={edge.name} class={isDim ? "dimmed" : ""}>
                  <path class="link" d={path} marker-end="url(#pointer)" />
                  <text class="label" x={label.x} y={label.y} text-anchor="middle">{edge.name}{cardinality(edge)}</text>
                </g>
              );
            })}
            {laid.boxes.map((box) => (
              <g key={box.node.name} class={`box${fits(box.node) ? "" : " dimmed"}`} role="button" tabIndex={0} aria-pressed={selected === box.node.name} transform={`translate(${box.x - box.width / 2} ${box.y - box.height / 2})`} onClick={() => setParams({ type: box.node.name })} onKeyDown={(event) => (event.key === "Enter" || event.key === " ") && (event.preventDefault(), setParams({ type: box.node.name }))}>
                <rect class="frame" width={box.width} height={box.height} rx="8" />
                <circle cx="16" cy="18" r="5" fill={colourOf(box.node.name)} stroke="none" />
                <text class="title" x="28" y="22">{box.node.name}</text>
                <text class="quiet" x={box.width - 12} y="22" text-anchor="end">{count(box.node.entity_count)}</text>
                {box.lines.map((line, at) => <text key={at} x="14" y={46 + at * 18} class={line.startsWith("…") ? "quiet" : ""}>{line}</text>)}
              </g>
            ))}
          </svg>
        </div>
        <div class="row body small">
          <span class="muted grow">{data.interfaces.length ? `Interfaces: ${data.interfaces.map((each) => `${each.name} (${each.types.join(", ")})`).join("; ")}` : "An arrow is an edge type; 0..1 is how many each node may have."}</span>
          <Button onClick={saveSvg}>SVG</Button>
        </div>
      </div>
      {info && <TypePanel info={info} data={data} />}
    </div>
  );
}

const ruleText = (rule: Constraint): string => `@${rule.kind}(${rule.fields.join(", ")}${rule.kind === "range" ? `, ${rule.minimum ?? ""}..${rule.maximum ?? ""}` : ""}${rule.pattern ? `, "${rule.pattern}"` : ""})`;

function TypePanel({ info, data }: { info: NodeInfo | EdgeInfo; data: Catalog }) {
  const edges = data.edges.filter((edge) => edge.from === info.name || edge.to === info.name);
  const word = info.name[0]!.toLowerCase() + info.name.slice(1);
  const query = "max_out" in info ? `query q() {\n  match { $a: ${info.from}  $a $e:${word} $b }\n  return { $e.from as from, $e.to as to }\n  limit 25\n}\n` : `query q() {\n  match { $n: ${info.name} }\n  return { $n }\n  limit 25\n}\n`;
  return (
    <aside class="card scroll closable" aria-label={info.name}>
      <header><h2><TypeName name={info.name} /></h2><span class="spacer" /><Button kind="plain" icon="close" label="Close the panel" onClick={() => setParams({ type: null })} /></header>
      <div class="body panel-tab">
        {info.description && <p>{info.description}</p>}
        <div class="row"><a class="button" href={link("browse", [info.name])}>Browse {count(info.entity_count)}</a><a class="button" href={link("query", [], { q: query })}>Query this</a></div>
        <table>
          <thead><tr><th>Property</th><th>Type</th></tr></thead>
          <tbody>{info.properties.map((property) => <tr key={property.name}><td>{property.name}</td><td class="mono">{property.type}</td></tr>)}</tbody>
        </table>
        {info.constraints.length > 0 && <div><h3>Rules</h3><ul class="list">{info.constraints.map((rule) => <li key={ruleText(rule)} class="mono">{ruleText(rule)}</li>)}</ul></div>}
        {info.indexes.length > 0 && <div><h3>Indexes</h3><ul class="list">{info.indexes.map((index) => <li key={index.property + index.kind} class="small"><span class="mono">{index.property} {index.kind}</span> <span class="muted">{index.pending_rows ? `${count(index.pending_rows)} rows to add` : "complete"}</span></li>)}</ul></div>}
        {edges.length > 0 && <div><h3>Edges</h3><ul class="list">{edges.map((edge) => <li key={edge.name} class="row small"><button type="button" class="link" onClick={() => setParams({ type: edge.name })}>{edge.name}</button><span class="muted">{edge.from} → {edge.to}{cardinality(edge)}</span><span class="grow" /><span class="number">{count(edge.entity_count)}</span></li>)}</ul></div>}
      </div>
    </aside>
  );
}

const schemaAt = (commit: string, stop: AbortSignal) => get<{ schema_source: string }>(pathOf(graphPath(graph.value, "/schema"), { snapshot: commit }), stop);

function Text() {
  const load = useLoad([graph.value, commitId.value], (stop) => schemaAt(commitId.value, stop));
  return (
    <Loaded load={load}>
      {({ schema_source }) => (
        <div class="card fill">
          <div class="row body"><span class="grow" /><Button onClick={() => void copy(schema_source, "The schema")}>Copy</Button><Button onClick={() => saveFile(`${graph.value}.pg`, schema_source)}>Save as file</Button></div>
          <pre class="code scroll grow" tabIndex={0} aria-label="Schema">{schema_source.split(/(\b(?:node|edge|interface|enum|implements)\b|@\w+|\/\/.*)/).map((part, at) => (/^(node|edge|interface|enum|implements)$/.test(part) ? <strong key={at}>{part}</strong> : /^(@|\/\/)/.test(part) ? <span key={at} class="muted">{part}</span> : part))}</pre>
        </div>
      )}
    </Loaded>
  );
}

interface SchemaDiff {
  supported: boolean;
  steps: { kind: string; effect: string; tier: string; code?: string }[];
  lines: string[];
}

const opOf = (kind: string): Op => (kind.startsWith("add") ? "insert" : /^(drop|remove)/.test(kind) ? "delete" : "update");

function Compare() {
  const [typed, setTyped] = useState(param("with") || "main~1");
  const other = param("with") || "main~1";
  const names = [...(refs.value.data?.branches ?? []), ...(refs.value.data?.tags ?? [])].map((ref) => ref.name);
  const load = useLoad([graph.value, other, commitId.value], (stop) => get<SchemaDiff>(pathOf(graphPath(graph.value, "/schema/diff"), { from: other, to: commitId.value }), stop));
  return (
    <>
      <form class="row" onSubmit={(event) => { event.preventDefault(); setParams({ with: typed }); }}>
        <datalist id="schema-revisions">{names.map((name) => <option key={name} value={name} />)}</datalist>
        <label class="row">Compare with <input type="text" list="schema-revisions" value={typed} onInput={(event) => setTyped(event.currentTarget.value)} /></label>
        <Button type="submit">Compare</Button>
      </form>
      <Loaded load={load}>
        {({ steps, lines }) => {
          if (!steps.length) return <Empty title="The schemas are the same">At {other} and at {shortId(commitId.value)}.</Empty>;
          return (
            <div class="card"><div class="body"><table>
              <thead><tr><th></th><th>Step from {other}</th><th>Effect</th><th>Code</th></tr></thead>
              <tbody>{steps.map((step, at) => <tr key={at}><td><Sign op={opOf(step.kind)} /></td><td>{shown(lines[at]!)}</td><td class="muted">{step.effect}</td><td class="mono">{step.code ?? ""}</td></tr>)}</tbody>
            </table></div></div>
          );
        }}
      </Loaded>
    </>
  );
}
