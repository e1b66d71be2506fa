/** Load files: preview, branch, mode, progress, and why records were refused. */
import { useEffect, useMemo, useState } from "preact/hooks";
import { get, graphPath, newKey, pathOf, read, saveFile, write, type ApiError, type Fields } from "./api";
import { bytes, count, plural, shown } from "./format";
import { asApiError, catalog, graph, isBranch, link, param, readAgain, reads, rev, setParams, whyNot } from "./state";
import { Age, Button, Card, CommitLink, Empty, Head, Loaded, Problem, useLoad, Value } from "./ui";
import type { Commit, Job } from "./wire";

const MODES: [string, string][] = [["append", "append: new entities only"], ["merge", "merge: insert or replace"], ["patch", "patch: change the given properties"], ["delete", "delete: remove what the file names"], ["overwrite", "overwrite: replace whole types"]];

interface Chosen {
  file: File;
  head: string[];
  types: string[];
}

/** The first lines of a file, and the types that they name; of CSV and Parquet, the file's name is the type. */
async function look(file: File): Promise<Chosen> {
  const head = /\.(parquet)$/i.test(file.name) ? [] : (await file.slice(0, 20_000).text()).split(/\r?\n/).filter(Boolean).slice(0, 5);
  const types = /\.(csv|parquet)$/i.test(file.name)
    ? [file.name.replace(/\.\w+$/, "")]
    : [...new Set(head.flatMap((line) => {
        try {
          const value = JSON.parse(line) as Record<string, unknown>;
          return [String(value.type ?? value.edge ?? "")].filter(Boolean);
        } catch {
          return [];
        }
      }))];
  return { file, head, types };
}

export function Loads() {
  const [files, setFiles] = useState<Chosen[]>([]);
  const [address, setAddress] = useState("");
  const [isOver, setOver] = useState(false);
  const [mode, setMode] = useState("merge");
  const [isNewBranch, setNewBranch] = useState(true);
  const [branchName, setBranchName] = useState(() => `load/${new Date().toISOString().slice(0, 16).replace(/[T:]/g, "-")}`);
  const [keeps, setKeeps] = useState(true);
  const [error, setError] = useState<ApiError | null>(null);
  const [isBusy, setBusy] = useState(false);
  const base = isBranch.value ? rev.value : "main";
  const job = param("job");
  const add = async (list: FileList | null) => {
    const looked = await Promise.all([...(list ?? [])].map(look));
    setFiles((old) => [...old, ...looked]);
  };
  const start = async () => {
    setBusy(true);
    setError(null);
    const options = { branch: isNewBranch ? branchName : base, ...(isNewBranch && { from: base }), mode, keep_rejects: keeps };
    const form = new FormData();
    for (const { file } of files) form.append("file", file, file.name);
    try {
      const { job_id } = await write<{ job_id: string }>(
        files.length
          ? { method: "POST", path: pathOf(graphPath(graph.value, "/jobs/load/upload"), options), form, key: newKey() }
          : { method: "POST", path: graphPath(graph.value, "/jobs/load"), body: { sources: [address.trim()], ...options }, key: newKey() },
      );
      setFiles([]);
      setAddress("");
      setParams({ job: job_id });
    } catch (problem) {
      setError(asApiError(problem));
    }
    setBusy(false);
  };
  const why = !files.length && !address.trim() ? "choose a file or give an address" : isBusy ? "it is being sent" : whyNot("change", isNewBranch ? branchName : base) || (isNewBranch ? whyNot("branch_create") : "");
  return (
    <>
      <Head title="Loads" text="A load is one commit or none. On a branch of its own it can be looked at before it is merged." />
      <section class="card" aria-label="New load"><div class="body panel-tab">
        <div class={`drop${isOver ? " over" : ""}`} onDragOver={(event) => { event.preventDefault(); setOver(true); }} onDragLeave={() => setOver(false)} onDrop={(event) => { event.preventDefault(); setOver(false); void add(event.dataTransfer?.files ?? null); }}>
          <label class="field">Drop files here, or choose them: JSON lines, CSV, Parquet
            <input type="file" multiple onChange={(event) => { void add(event.currentTarget.files); event.currentTarget.value = ""; }} />
          </label>
        </div>
        {!files.length && (
          <label class="field">Or an address that the server can read: a file, a folder or a pattern
            <input type="text" value={address} placeholder="s3://bucket/people/*.parquet" onInput={(event) => setAddress(event.currentTarget.value)} />
          </label>
        )}
        {files.map(({ file, head, types }, number) => (
          <div key={file.name + number}>
            <div class="row">
              <strong class="ellipsis">{shown(file.name, 100)}</strong>
              <span class="muted small">{bytes(file.size)}</span>
              {types.map((type) => <span key={type} class={`chip ${catalog.value.data && ![...catalog.value.data.nodes, ...catalog.value.data.edges].some((each) => each.name === type) ? "delete" : ""}`}>{shown(type, 40)}</span>)}
              <span class="grow" />
              <Button kind="plain" icon="close" label={`Remove ${file.name}`} onClick={() => setFiles(files.filter((_, at) => at !== number))} />
            </div>
            {head.length > 0 && <pre class="code" tabIndex={0} aria-label={`First lines of ${file.name}`}>{head.map((line) => shown(line, 200)).join("\n")}</pre>}
          </div>
        ))}
        <div class="row form">
          <label class="field">Mode<select value={mode} onChange={(event) => setMode(event.currentTarget.value)}>{MODES.map(([name, text]) => <option key={name} value={name}>{text}</option>)}</select></label>
          <label class="check"><input type="checkbox" checked={isNewBranch} onChange={(event) => setNewBranch(event.currentTarget.checked)} />Make a branch for this, from {base}</label>
          {isNewBranch && <label class="field">Branch<input type="text" value={branchName} onInput={(event) => setBranchName(event.currentTarget.value)} /></label>}
          <label class="check"><input type="checkbox" checked={keeps} onChange={(event) => setKeeps(event.currentTarget.checked)} />Set refused records aside and load the others</label>
          <span class="grow" />
          <Button kind="primary" why={why} onClick={() => void start()}>Start the load</Button>
        </div>
        {error && <Problem error={error} />}
      </div></section>
      {job && <JobCard key={job} id={job} />}
      <PastLoads />
    </>
  );
}

const isOver = (job: Job): boolean => ["done", "failed", "cancelled", "prepared"].includes(job.state);

function JobCard({ id }: { id: string }) {
  const [job, setJob] = useState<Job | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  useEffect(() => {
    const stop = new AbortController();
    const poll = async () => {
      try {
        for (;;) {
          const next = await get<Job>(graphPath(graph.value, `/jobs/${encodeURIComponent(id)}`), stop.signal);
          setJob(next);
          if (isOver(next)) return readAgain();
          await new Promise((done) => setTimeout(done, 250));
          if (stop.signal.aborted) return;
        }
      } catch (problem) {
        if (!stop.signal.aborted) setError(asApiError(problem));
      }
    };
    void poll();
    return () => stop.abort();
  }, [id]);
  if (error) return <Problem error={error} />;
  if (!job) return null;
  const commit = job.result?.commit;
  return (
    <Card title={`Load into ${job.branch}`} actions={<span class={`chip ${job.state === "done" ? "insert" : job.state === "failed" ? "delete" : ""}`} role="status">{job.state}</span>}>
      <div class="panel-tab">
        <div class="row small muted"><span>{plural(job.rows, "row")}</span><span>{bytes(job.bytes)}</span><span>{job.seconds.toFixed(1)} s</span>{job.seconds > 0 && <span>{count(Math.round(job.rows / job.seconds))} rows/s</span>}<span>{count(job.rejected)} refused</span>{job.stage && !isOver(job) && <span>{job.stage} {job.done}/{job.tasks}</span>}</div>
        {!isOver(job) && <div class="bar"><i style={{ width: `${job.tasks ? (100 * (job.done ?? 0)) / job.tasks : 5}%` }} /></div>}
        {!isOver(job) && <div><Button onClick={() => void write({ method: "DELETE", path: graphPath(graph.value, `/jobs/${id}`), key: newKey() })}>Cancel the load</Button></div>}
        {job.error && <div class="problem" role="alert"><strong>Nothing was loaded</strong><span class="wrap">{shown(job.error.error, 2000)}</span>{job.error.problem?.hint && <span class="small">{shown(job.error.problem.hint, 500)}</span>}</div>}
        {job.result && <p>{plural(job.result.total_entities, "entity", "entities")} loaded{commit ? <>, commit <CommitLink id={commit.graph_commit_id} /></> : ""}. {job.branch !== "main" && commit && <a href={link("merge", [job.branch, "main"])}>Review the merge into main</a>}</p>}
        {job.state === "done" && job.rejected > 0 && <Rejects id={id} total={job.rejected} />}
      </div>
    </Card>
  );
}

function Rejects({ id, total }: { id: string; total: number }) {
  const [reason, setReason] = useState("");
  const load = useLoad([id], async (stop) => {
    const { value } = await read<Response>(graphPath(graph.value, `/jobs/${encodeURIComponent(id)}/rejects`), stop);
    const text = await value.text();
    return { text, rows: text.split("\n").filter(Boolean).slice(0, 5000).map((line) => JSON.parse(line) as Fields) };
  });
  return (
    <Loaded load={load}>
      {({ text, rows }) => <RejectTable text={text} rows={rows} total={total} reason={reason} onReason={setReason} />}
    </Loaded>
  );
}

const reasonOf = (row: Fields): string => String(row.error ?? row.reason ?? row.message ?? "refused");
/** The same reason for different values is one reason. */
const general = (text: string): string => text.replace(/'[^']*'/g, "'…'").replace(/-?\d+(\.\d+)?/g, "…");

function RejectTable({ text, rows, total, reason, onReason }: { text: string; rows: Fields[]; total: number; reason: string; onReason: (reason: string) => void }) {
  const groups = useMemo(() => [...Map.groupBy(rows, (row) => general(reasonOf(row)))].sort((a, b) => b[1].length - a[1].length), [rows]);
  const list = reason ? rows.filter((row) => general(reasonOf(row)) === reason) : rows;
  return (
    <div class="panel-tab">
      <div class="row"><h3 class="grow">{plural(total, "record")} refused</h3><Button onClick={() => saveFile("rejects.ndjson", text, "application/x-ndjson")}>Save the refused records</Button></div>
      <div class="row" role="group" aria-label="Reasons">{groups.map(([name, members]) => <Button key={name} aria-pressed={reason === name} onClick={() => onReason(reason === name ? "" : name)}><span class="ellipsis">{shown(name, 90)}</span> <strong>{count(members.length)}</strong></Button>)}</div>
      <div class="scroll rejects" tabIndex={0} role="group" aria-label="Refused records">
        <table>
          <thead><tr><th>File</th><th class="number">Line</th><th>Type</th><th>Property</th><th>Why</th><th>Record</th></tr></thead>
          <tbody>{list.slice(0, 200).map((row, at) => <tr key={at}><td class="ellipsis">{shown(row.file ?? "", 60)}</td><td class="number">{row.line === undefined ? "" : shown(row.line)}</td><td>{shown(row.type_name ?? "")}</td><td>{shown(row.property ?? "")}</td><td>{shown(reasonOf(row), 300)}{row.hint && <span class="muted small"> {shown(row.hint, 200)}</span>}</td><td class="mono"><Value value={row.record ?? row.data ?? null} limit={300} /></td></tr>)}</tbody>
        </table>
      </div>
      <p class="muted small">Correct the file and load it again: mode merge changes nothing that is already there.</p>
    </div>
  );
}

function PastLoads() {
  const branch = isBranch.value ? rev.value : "main";
  const load = useLoad([graph.value, branch, reads.value], (stop) => Promise.all([get<{ commits: Commit[] }>(pathOf(graphPath(graph.value, "/commits"), { branch, kind: "load", limit: 20 }), stop), get<{ jobs: Job[] }>(graphPath(graph.value, "/jobs"), stop)]));
  return (
    <Loaded load={load} lines={3}>
      {([{ commits }, { jobs }]) => (
        <div class="cards">
          <Card title={`Loads of ${branch}`}>
            {!commits.length && <Empty title="No load yet" />}
            <ul class="list">{commits.map((commit) => <li key={commit.graph_commit_id} class="row"><a class="grow ellipsis" href={link("commit", [commit.graph_commit_id])}>{shown(commit.message ?? "load", 80)}</a><span class="muted small">{commit.actor_id ?? ""} <Age commit={commit} /></span></li>)}</ul>
          </Card>
          {jobs.length > 0 && <Card title="Jobs of this server"><ul class="list">{jobs.slice(0, 20).map((job) => <li key={job.job_id} class="row"><button type="button" class="link grow" onClick={() => setParams({ job: job.job_id })}>{job.branch}</button><span class="muted small">{plural(job.rows, "row")}, {count(job.rejected)} refused</span><span class="chip">{job.state}</span></li>)}</ul></Card>}
        </div>
      )}
    </Loaded>
  );
}
