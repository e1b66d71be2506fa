/** Changes as a graph: what changed, and around it, faintly, what did not. Groups stand for more than can be seen. */
import { useEffect, useMemo, useState } from "preact/hooks";
import { ask, graphPath } from "./api";
import { keyOf, type ChangeList } from "./diff";
import { count, plural } from "./format";
import { Picture, type PictureEdge, type PictureNode } from "./picture";
import { edgeTypes, graph, nodeTypes, setParams } from "./state";
import { Button, OP_NAMES, Sign, Skeleton, useLoad } from "./ui";
import type { Change, Op, Result, TypeSummary } from "./wire";

export const MAX_DRAWN = 2000;
const MAX_ASKED = 200;
const MAX_NEAR = 150;

interface Near {
  nodes: PictureNode[];
  edges: PictureEdge[];
}

/** Unchanged edges at the changed nodes, and the nodes at their other ends: one query for each type of edge and direction. */
async function neighbours(name: string, commit: string, nodes: Map<string, string[]>, stop: AbortSignal): Promise<Near> {
  const hops = [...edgeTypes.value.values()].flatMap((edge) => [
    { edge, near: edge.from, far: edge.to, pattern: "$a $e:EDGE $b" },
    { edge, near: edge.to, far: edge.from, pattern: "$b $e:EDGE $a" },
  ]);
  const asked = hops.filter((hop) => nodes.has(hop.near)).slice(0, 16);
  const found = await Promise.all(
    asked.map(async ({ edge, near, far, pattern }) => {
      const word = edge.name[0]!.toLowerCase() + edge.name.slice(1);
      const query = `query near($ids: [String]) {\n  match { $a: ${near}  $b: ${far}  $a.id in $ids  ${pattern.replace("EDGE", word)} }\n  return { $e.id as edge, $a.id as one, $b.id as other }\n  order { edge }\n  limit ${Math.max(8, Math.floor(MAX_NEAR / asked.length))}\n}`;
      const result = await ask<Result>(graphPath(name, "/query"), { query, params: { ids: nodes.get(near)!.slice(0, MAX_ASKED) }, snapshot: commit }, stop);
      return result.rows.map((row) => {
        const [one, other] = [`${near}:${String(row.one)}`, `${far}:${String(row.other)}`];
        const isOut = pattern.startsWith("$a");
        return { node: { key: other, type: far, label: String(row.other), isFaded: true, size: 6 }, edge: { key: `${edge.name}:${String(row.edge)}`, source: isOut ? one : other, target: isOut ? other : one, label: edge.name, isFaded: true } };
      });
    }),
  );
  return { nodes: found.flat().map((each) => each.node), edges: found.flat().map((each) => each.edge) };
}

function drawing(changes: readonly Change[], near: Near | undefined): Near {
  const nodes = new Map<string, PictureNode>();
  const edges = new Map<string, PictureEdge>();
  for (const change of changes) if (change.kind === "node") nodes.set(keyOf(change), { key: keyOf(change), type: change.type.name, label: change.id, op: change.op });
  for (const change of changes) {
    const ends = (change.after ?? change.before)?.endpoints;
    const type = edgeTypes.value.get(change.type.name);
    if (!ends || !type) continue;
    const [source, target] = [`${type.from}:${ends.from}`, `${type.to}:${ends.to}`];
    if (!nodes.has(source)) nodes.set(source, { key: source, type: type.from, label: ends.from, isFaded: true, size: 6 });
    if (!nodes.has(target)) nodes.set(target, { key: target, type: type.to, label: ends.to, isFaded: true, size: 6 });
    edges.set(keyOf(change), { key: keyOf(change), source, target, label: type.name, op: change.op });
  }
  for (const node of near?.nodes ?? []) if (!nodes.has(node.key)) nodes.set(node.key, node);
  for (const edge of near?.edges ?? []) if (!edges.has(edge.key)) edges.set(edge.key, edge);
  return { nodes: [...nodes.values()], edges: [...edges.values()] };
}

/** One circle for each type and kind of change; its area is the number of entities. */
function grouped(summary: readonly TypeSummary[]): Near {
  const nodes: PictureNode[] = [];
  const edges: PictureEdge[] = [];
  const most = Math.max(1, ...summary.flatMap((row) => [row.insert, row.update, row.delete]));
  const ops = (row: TypeSummary) => (["insert", "update", "delete"] as Op[]).filter((op) => row[op] > 0);
  const size = (number: number) => 8 + 26 * Math.sqrt(number / most);
  for (const row of summary.filter((each) => each.entity_kind === "node")) {
    for (const op of ops(row)) nodes.push({ key: `${row.type_name}:${op}`, type: row.type_name, label: `${row.type_name} ${count(row[op])}`, op, size: size(row[op]) });
  }
  const at = (type: string): string => {
    const group = nodes.find((node) => node.type === type);
    if (group) return group.key;
    nodes.push({ key: `${type}:same`, type, label: type, isFaded: true, size: 10 });
    return `${type}:same`;
  };
  for (const row of summary.filter((each) => each.entity_kind === "edge")) {
    const type = edgeTypes.value.get(row.type_name);
    if (type) for (const op of ops(row)) edges.push({ key: `${row.type_name}:${op}`, source: at(type.from), target: at(type.to), label: `${row.type_name} ${count(row[op])}`, op, width: 1 + 4 * Math.sqrt(row[op] / most) });
  }
  return { nodes, edges };
}

export function DiffPicture({ to, list, total, summary, types, selected }: { to: string; list: ChangeList; total: number; summary: TypeSummary[]; types: string[]; selected: string }) {
  const isLarge = total > MAX_DRAWN;
  const [hasNear, setNear] = useState(true);
  useEffect(() => {
    if (!isLarge && !list.isComplete && !list.isLoading) list.more();
  }, [isLarge, list.isComplete, list.isLoading]);
  const isReady = isLarge || list.isComplete;
  const changed = list.changes.filter((change) => change.kind === "node" && nodeTypes.value.has(change.type.name));
  const near = useLoad([to, isReady && !isLarge, hasNear, list.changes.length, types], async (stop) => {
    if (!isReady || isLarge || !hasNear) return { nodes: [], edges: [] };
    // The edges of a removed node are removed with it: only what is still there has unchanged ones.
    const kept = changed.filter((change) => change.op !== "delete");
    const ids = [...Map.groupBy(kept, (change) => change.type.name)].map(([type, members]) => [type, members.map((change) => change.id)] as const);
    return neighbours(graph.value, to, new Map(ids), stop);
  });
  const rows = summary.filter((row) => !types.length || types.includes(row.type_name));
  const drawn = useMemo(() => (isLarge ? grouped(rows) : drawing(list.changes, near.data)), [isLarge, list.changes, near.data, rows.length, total]);
  if (!isReady) return <div class="card"><Skeleton lines={8} /></div>;
  return (
    <div class="fill">
      <div class="row small">
        {(["insert", "update", "delete"] as Op[]).map((op) => <span key={op} class={`chip ${op}`}><Sign op={op} />{OP_NAMES[op]}</span>)}
        <span class="muted">{isLarge ? `${count(total)} changes, in groups: more than ${count(MAX_DRAWN)} cannot be told apart. Choose a group or a type to see less.` : `${plural(list.changes.length, "change")}; faint: unchanged neighbours`}</span>
        <span class="grow" />
        {!isLarge && <Button aria-pressed={hasNear} onClick={() => setNear(!hasNear)}>Neighbours</Button>}
      </div>
      <Picture
        nodes={drawn.nodes}
        edges={drawn.edges}
        doesFit
        selected={selected}
        label="The changes as a graph"
        onSelect={(key) => {
          if (!isLarge) return setParams({ sel: key || null }, true);
          const [type, op] = key.split(":");
          if (type && op && op !== "same") setParams({ type: [type], op: [op] });
        }}
      />
    </div>
  );
}
