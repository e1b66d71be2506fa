/** What is stored, what could be compacted or removed, and how the server is. */
import { useState } from "preact/hooks";
import { ask, get, graphPath, pathOf, type ApiError, type Json } from "./api";
import { bytes, count, plural } from "./format";
import { asApiError, graph, isBranch, readAgain, reads, rev, whyNot } from "./state";
import { Button, Card, CommitLink, Dialog, Empty, Head, Loaded, Problem, TypeName, useLoad, useWrite } from "./ui";
import type { Storage } from "./wire";

interface Optimized {
  dry_run: boolean;
  tables: { table: string; actions: string[]; before: { fragments: number; bytes: number }; after: { fragments: number; bytes: number } }[];
  commit?: { graph_commit_id: string };
}
interface Cleaned {
  dry_run: boolean;
  files: number;
  bytes: number;
  removed: Record<string, { files: number; bytes: number }>;
  kept?: { name: string; commits: number }[];
}

export function Health() {
  const branch = isBranch.value ? rev.value : "main";
  const storage = useLoad([graph.value, branch, reads.value], (stop) => get<Storage>(pathOf(graphPath(graph.value, "/storage"), { branch }), stop));
  const server = useLoad([reads.value], (stop) => Promise.all([get<{ source_version: string }>("/healthz", stop), get<{ status: string; served_graph_count: number; quarantined_graph_count: number }>("/readyz", stop)]));
  const [isCompacting, setCompacting] = useState(false);
  const [isCleaning, setCleaning] = useState(false);
  const admin = whyNot("admin");
  return (
    <>
      <Head title="Health" text={`The storage of ${branch}`}>
        <Button why={admin} onClick={() => setCompacting(true)}>Optimize…</Button>
        <Button why={admin} onClick={() => setCleaning(true)}>Clean up…</Button>
      </Head>
      <Loaded load={storage}>
        {(data) => {
          const total = data.types.reduce((sum, type) => sum + sizeOf(type), 0);
          const largest = Math.max(1, ...data.types.map(sizeOf));
          return (
            <>
              <section class="card numbers" aria-label="Numbers">
                {[["In use", bytes(total), plural(data.types.length, "type")], ["Could be removed", bytes(data.reclaimable_bytes), "by cleanup"], ["History", bytes(data.history.bytes), plural(data.history.files, "file")], ["Commits", count(data.commits), `${plural(data.branches, "branch", "branches")}, ${plural(data.tags, "tag")}`]].map(([name, value, detail]) => <div key={name}><div class="muted small">{name}</div><div class="stat">{value}</div><div class="muted small">{detail}</div></div>)}
              </section>
              <Card title="Space by type">
                {!data.types.length && <Empty title="Nothing is stored yet" />}
                <div class="scroll" tabIndex={0} role="group" aria-label="Space by type">
                  <table>
                    <thead><tr><th>Type</th><th class="number">Size</th><th class="wide"></th><th class="number">Rows</th><th class="number">Fragments</th><th class="number">Deleted rows</th><th class="number">Index rows to add</th><th class="number">Removable</th></tr></thead>
                    <tbody>
                      {[...data.types].sort((a, b) => sizeOf(b) - sizeOf(a)).map((type) => (
                        <tr key={type.type}>
                          <td><TypeName name={type.type.split(":")[1] ?? type.type} kind={type.type.startsWith("edge") ? "edge" : "node"} /></td>
                          <td class="number">{bytes(sizeOf(type))}</td>
                          <td class="wide bar-cell"><div class="bar" aria-hidden="true"><i style={{ width: `${(100 * sizeOf(type)) / largest}%` }} /></div></td>
                          <td class="number">{count(type.rows)}</td>
                          <td class="number">{count(type.fragments)}</td>
                          <td class="number">{count(type.deleted_rows)}</td>
                          <td class="number">{count(Math.max(0, ...type.indexes.map((index) => index.pending_rows)))}</td>
                          <td class="number">{bytes(type.reclaimable_bytes)}</td>
                        </tr>
                      ))}
                    </tbody>
                  </table>
                </div>
              </Card>
            </>
          );
        }}
      </Loaded>
      <div class="cards">
        {!admin && <Prepared />}
        <Card title="Server">
          <Loaded load={server} lines={2}>
            {([health, ready]) => <dl class="properties"><dt>Version</dt><dd>{health.source_version}</dd><dt>State</dt><dd>{ready.status}</dd><dt>Graphs</dt><dd>{ready.served_graph_count} served, {ready.quarantined_graph_count} set aside</dd></dl>}
          </Loaded>
        </Card>
      </div>
      {isCompacting && <Maintain title="Optimize" path="/maintenance/optimize" dry={{ branch, dry_run: true }} real={{ branch }} verb="Compact and index" onClose={() => setCompacting(false)} show={(value) => <OptimizePlan value={value as Optimized} />} />}
      {isCleaning && <Maintain title="Clean up" path="/maintenance/cleanup" dry={{}} real={{ confirm: true }} verb="Remove for good" onClose={() => setCleaning(false)} show={(value) => <CleanupPlan value={value as Cleaned} />} />}
    </>
  );
}

const sizeOf = (type: { live_bytes: number; history_bytes: number; adjacency_bytes: number }): number => type.live_bytes + type.history_bytes + type.adjacency_bytes;

function OptimizePlan({ value }: { value: Optimized }) {
  const tables = value.tables.filter((table) => table.actions.length);
  if (!tables.length) return <p>{value.dry_run ? "Nothing needs it." : "Nothing needed it."}</p>;
  return (
    <div class="scroll" tabIndex={0} role="group" aria-label="Tables">
      {value.commit && <p role="status">Done, in commit <CommitLink id={value.commit.graph_commit_id} />.</p>}
      <table>
        <thead><tr><th>Type</th><th>What</th><th class="number">Fragments</th></tr></thead>
        <tbody>{tables.map((table) => <tr key={table.table}><td>{table.table.split(":")[1]}</td><td>{table.actions.join(", ")}</td><td class="number">{table.before.fragments} → {table.after.fragments}</td></tr>)}</tbody>
      </table>
    </div>
  );
}

const CleanupPlan = ({ value }: { value: Cleaned }) => (
  <div>
    <p role="status">{value.dry_run ? "It would remove" : "It removed"} {plural(value.files, "file")}, {bytes(value.bytes)}.</p>
    <ul class="list">{Object.entries(value.removed).map(([kind, each]) => <li key={kind} class="row small"><span class="grow">{kind}</span><span>{plural(each.files, "file")}</span><span class="number">{bytes(each.bytes)}</span></li>)}</ul>
  </div>
);

/** First what it would do, then the button that does it. */
function Maintain({ title, path, dry, real, verb, onClose, show }: { title: string; path: string; dry: Json; real: Json; verb: string; onClose: () => void; show: (value: unknown) => preact.ComponentChildren }) {
  const plan = useLoad([title], (stop) => ask<unknown>(graphPath(graph.value, path), dry, stop));
  const [result, setResult] = useState<{ value?: unknown; error?: ApiError; isBusy: boolean }>({ isBusy: false });
  const run = async () => {
    setResult({ isBusy: true });
    try {
      setResult({ isBusy: false, value: await ask<unknown>(graphPath(graph.value, path), real) });
      readAgain();
    } catch (error) {
      setResult({ isBusy: false, error: asApiError(error) });
    }
  };
  return (
    <Dialog title={title} onClose={onClose}>
      {result.value ? show(result.value) : <Loaded load={plan} lines={3}>{(value) => show(value)}</Loaded>}
      {result.error && <Problem error={result.error} />}
      <div class="row">{!result.value && <Button kind="primary" why={plan.data && !result.isBusy ? "" : "wait for the answer"} onClick={() => void run()}>{verb}</Button>}<Button onClick={onClose}>Close</Button></div>
    </Dialog>
  );
}

function Prepared() {
  const load = useLoad([graph.value, reads.value], (stop) => get<{ prepared: { graph_commit_id: string; branch: string; total_entities: number }[] }>(graphPath(graph.value, "/maintenance/recovery"), stop));
  const write = useWrite<unknown>(readAgain);
  return (
    <Card title="Prepared loads">
      {write.problem}
      <Loaded load={load} lines={2}>
        {({ prepared }) =>
          prepared.length ? (
            <ul class="list">
              {prepared.map((each) => (
                <li key={each.graph_commit_id} class="row">
                  <span class="grow">{plural(each.total_entities, "entity", "entities")} for {each.branch}</span>
                  <Button onClick={() => void write.run({ method: "POST", path: graphPath(graph.value, `/maintenance/recovery/${each.graph_commit_id}/resume`) })}>Publish</Button>
                  <Button onClick={() => void write.run({ method: "POST", path: graphPath(graph.value, `/maintenance/recovery/${each.graph_commit_id}/discard`) })}>Discard</Button>
                </li>
              ))}
            </ul>
          ) : (
            <p class="muted">No load was interrupted.</p>
          )
        }
      </Loaded>
    </Card>
  );
}
