/** One entity in a panel beside a table or a picture: its values, its edges with their numbers, its versions. */
import { useState } from "preact/hooks";
import { download, get, graphPath, pathOf } from "./api";
import { bytes, count, shortId, shown } from "./format";
import { commitId, edgeTypes, graph, isBranch, link, nodeTypes, rev } from "./state";
import { Age, Button, EntityLink, Loaded, Properties, Sign, Tabs, TypeName, useLoad } from "./ui";
import type { EntityState, EntityVersion, Neighbours } from "./wire";

export function EntityPanel({ type, id, onClose, children }: { type: string; id: string; onClose?: () => void; children?: preact.ComponentChildren }) {
  const [tab, setTab] = useState("values");
  const commit = commitId.value;
  const isNode = nodeTypes.value.has(type);
  const entity = useLoad([type, id, commit], (stop) => (commit ? get<EntityState>(pathOf(graphPath(graph.value, "/entity"), { type, id, rev: commit }), stop) : null));
  const tabs: [string, string][] = [["values", "Values"], ...(isNode ? [["edges", "Edges"] as [string, string]] : []), ["versions", "Versions"]];
  return (
    <aside class={`card scroll${onClose ? " closable" : ""}`} aria-label={`${type} ${id}`}>
      <header>
        <h2 class="ellipsis"><TypeName name={type} /></h2>
        <span class="spacer" />
        {isNode && <a class="button" href={link("explore", [], { node: `${type}:${id}` })}>Explore</a>}
        {onClose && <Button kind="plain" icon="close" label="Close the panel" onClick={onClose} />}
      </header>
      <div class="body">
        <p class="wrap"><strong><bdi>{shown(id, 200)}</bdi></strong></p>
        {children}
        <Tabs label="About the entity" names={tabs} value={tab} onChange={setTab} />
        <div class="panel-tab">
          {tab === "values" && (
            <Loaded load={entity} lines={4}>
              {(value) => (
                <>
                  {value.endpoints && <Ends type={type} ends={value.endpoints} />}
                  <Properties of={value.properties} />
                  {Object.entries(value.blobs ?? {}).map(([name, size]) => (
                    <Button key={name} onClick={() => void download(pathOf(graphPath(graph.value, "/blob"), { entity: value.entity_kind, type, id, property: name, snapshot: commit }), `${id}.${name}`)}>
                      {name}: {bytes(size)}
                    </Button>
                  ))}
                </>
              )}
            </Loaded>
          )}
          {tab === "edges" && <Edges type={type} id={id} />}
          {tab === "versions" && <Versions type={type} id={id} />}
        </div>
      </div>
    </aside>
  );
}

function Ends({ type, ends }: { type: string; ends: { from: string; to: string } }) {
  const edge = edgeTypes.value.get(type);
  if (!edge) return null;
  return (
    <p class="row">
      <EntityLink type={edge.from} id={ends.from} />
      <span aria-label="to">→</span>
      <EntityLink type={edge.to} id={ends.to} />
    </p>
  );
}

function Edges({ type, id }: { type: string; id: string }) {
  const near = useLoad([type, id, commitId.value], (stop) => get<Neighbours>(pathOf(graphPath(graph.value, "/entity/neighbours"), { type, id, rev: commitId.value, limit: 25 }), stop));
  return (
    <Loaded load={near} lines={4}>
      {(value) => (
        <>
          <ul class="list">
            {value.counts.map((each) => (
              <li key={each.edge + each.direction} class="row">
                <a href={link("browse", [each.edge], { filter: `${each.direction === "out" ? "from" : "to"}.eq:${id}` })}>
                  {each.direction === "out" ? "→" : "←"} {each.edge} {each.type}
                </a>
                <span class="grow" />
                <span class="number">{count(each.count)}</span>
              </li>
            ))}
          </ul>
          {value.nodes.length > 0 && <h3>Near</h3>}
          <ul class="list">
            {value.nodes.map((node) => (
              <li key={node.type + node.id} class="row"><TypeName name={node.type} /><EntityLink type={node.type} id={node.id} /></li>
            ))}
          </ul>
        </>
      )}
    </Loaded>
  );
}

function Versions({ type, id }: { type: string; id: string }) {
  const branch = isBranch.value ? rev.value : "main";
  const load = useLoad([type, id, branch], (stop) => get<{ versions: EntityVersion[] }>(pathOf(graphPath(graph.value, "/entity/history"), { type, id, branch, limit: 50 }), stop));
  return (
    <Loaded load={load} lines={3}>
      {({ versions }) => (
        <ul class="list">
          {versions.map((version) => (
            <li key={version.commit.graph_commit_id}>
              <a class="row" href={link("commit", [version.commit.graph_commit_id], { sel: `${type}:${id}` })}>
                <Sign op={version.op} />
                <span class="grow ellipsis">{shown(version.commit.message ?? version.commit.kind ?? shortId(version.commit.graph_commit_id), 80)}</span>
              </a>
              <span class="muted small">{version.commit.actor_id ?? ""} <Age commit={version.commit} /></span>
            </li>
          ))}
        </ul>
      )}
    </Loaded>
  );
}
