/** What is in the graph, what happened last, which branches there are. */
import { get, graphPath, pathOf } from "./api";
import { count, plural, shortId, shown } from "./format";
import { catalog, colourOf, commitId, commits, graph, isBranch, link, reads, refs, rev } from "./state";
import { Age, Card, CommitLink, Empty, Head, Icon, Loaded, TypeName, useLoad } from "./ui";
import type { Catalog, Log } from "./wire";

export function Overview() {
  const id = commitId.value;
  const log = useLoad([graph.value, id, reads.value, commits.value], (stop) =>
    id ? get<Log>(pathOf(graphPath(graph.value, "/log"), { ref: isBranch.value ? rev.value : id, limit: 10 }), stop) : null,
  );
  return (
    <>
      <Head title={graph.value || "Overview"} text={catalog.value.data && <>At commit <CommitLink id={id} />{isBranch.value ? `, the head of ${rev.value}` : ""}</>}>
        <a class="button" href={link("browse")}>Browse</a>
        <a class="button" href={link("query")}>Query</a>
        <a class="button primary" href={link("explore")}>Explore</a>
      </Head>
      <Loaded load={catalog.value} lines={10}>
        {(data) => (
          <>
            <Numbers data={data} />
            <div class="cards">
              <Types title="Nodes" rows={data.nodes} kind="node" />
              <Types title="Edges" rows={data.edges} kind="edge" />
              <Card title="Branches" actions={<a href={link("refs")}>All refs</a>}>
                <Loaded load={refs.value} lines={3}>
                  {({ branches }) => (
                    <ul class="list">
                      {branches.slice(0, 8).map((branch) => (
                        <li key={branch.name} class="row">
                          <a class="chip branch ellipsis" href={link("overview", [], { rev: branch.name, at: null })}>{branch.name}</a>
                          {branch.protected && <span class="chip">protected</span>}
                          <span class="grow" />
                          {branch.name !== "main" && <span class="muted small">{branch.ahead} ahead · {branch.behind} behind</span>}
                          {branch.name !== "main" && branch.ahead > 0 && <a class="small" href={link("merge", [branch.name, "main"])}>Review</a>}
                        </li>
                      ))}
                    </ul>
                  )}
                </Loaded>
              </Card>
              <Card title="Last commits" actions={<a href={link("history")}>History</a>}>
                <Loaded load={log} lines={5}>
                  {(value) => (
                    <ul class="list">
                      {value.commits.map((commit) => (
                        <li key={commit.graph_commit_id} class="row">
                          <a class="ellipsis grow" href={link("commit", [commit.graph_commit_id])}>{shown(commit.message ?? commit.kind ?? shortId(commit.graph_commit_id), 100)}</a>
                          <span class="muted small">{commit.actor_id ?? ""}</span>
                          <span class="muted small"><Age commit={commit} /></span>
                        </li>
                      ))}
                    </ul>
                  )}
                </Loaded>
              </Card>
            </div>
          </>
        )}
      </Loaded>
    </>
  );
}

/** A smaller table is read whole as fast as by an index. */
const MIN_INDEXED = 50_000;

function Numbers({ data }: { data: Catalog }) {
  const nodes = data.nodes.reduce((sum, type) => sum + type.entity_count, 0);
  const edges = data.edges.reduce((sum, type) => sum + type.entity_count, 0);
  const pending = [...data.nodes, ...data.edges].filter((type) => type.entity_count >= MIN_INDEXED).flatMap((type) => type.indexes).reduce((sum, index) => sum + index.pending_rows, 0);
  if (!data.nodes.length || nodes + edges === 0) {
    return (
      <section class="card">
        <Empty title={data.nodes.length ? "The graph is empty" : "The graph has no types"}>
          <p>{data.nodes.length ? "Load a file: JSON lines, CSV or Parquet." : "Declare types with a schema, then load a file."}</p>
          <div class="row">
            <a class="button primary" href={link("loads")}><Icon name="load" />Load a file</a>
            <a class="button" href={link("schema")}>Look at the schema</a>
          </div>
          <pre class="code">omnigraph load ./{graph.value} --data people.jsonl --mode append</pre>
        </Empty>
      </section>
    );
  }
  const numbers: [string, string, string][] = [
    ["Nodes", count(nodes), plural(data.nodes.length, "type")],
    ["Edges", count(edges), plural(data.edges.length, "type")],
    ["Branches", refs.value.data ? count(refs.value.data.branches.length) : "…", refs.value.data ? plural(refs.value.data.tags.length, "tag") : ""],
    ["Index rows to add", count(pending), pending ? "optimize brings them up to date" : "nothing waits for optimize"],
  ];
  return (
    <section class="card numbers" aria-label="Numbers">
      {numbers.map(([name, value, detail]) => (
        <div key={name}>
          <div class="muted small">{name}</div>
          <div class="stat">{value}</div>
          <div class="muted small">{detail}</div>
        </div>
      ))}
    </section>
  );
}

function Types({ title, rows, kind }: { title: string; rows: { name: string; entity_count: number }[]; kind: "node" | "edge" }) {
  const most = Math.max(1, ...rows.map((row) => row.entity_count));
  return (
    <Card title={title}>
      {!rows.length && <p class="muted">There are none.</p>}
      <ul class="list">
        {[...rows].sort((a, b) => b.entity_count - a.entity_count).slice(0, 40).map((row) => (
          <li key={row.name}>
            <a class="row" href={link("browse", [row.name])}>
              <span class="grow"><TypeName name={row.name} kind={kind} /></span>
              <span class="number">{count(row.entity_count)}</span>
            </a>
            <div class="bar" aria-hidden="true"><i style={{ width: `${(100 * row.entity_count) / most}%`, background: kind === "node" ? colourOf(row.name) : "var(--strong-line)" }} /></div>
          </li>
        ))}
      </ul>
    </Card>
  );
}
