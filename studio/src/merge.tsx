/** Review a merge: its outcome before anything happens, every conflict in three columns, and the decision. */
import { useEffect, useMemo, useState } from "preact/hooks";
import { ask, get, graphPath, pathOf, type Fields, type Json } from "./api";
import { count, listOf, numberOf, plural, sameValue, shortId, shown } from "./format";
import { catalog, go, graph, link, place, readAgain, refs, typeNamed, whyNot } from "./state";
import { Button, CommitLink, Empty, EntityLink, Head, Loaded, Problem, Sign, TypeName, useKeys, useLoad, useWrite, Value } from "./ui";
import type { BranchDetail, Commit, Conflict, Diff, Image, Review } from "./wire";

type Take = "ours" | "theirs" | "base" | "delete" | "value";
type Side = "base" | "ours" | "theirs";
interface Decision {
  take: Take;
  seen: string;
  /** Per property, the side that was picked. */
  picks?: Record<string, Side>;
  value?: Image;
  note?: string;
}
type Decisions = Record<string, Decision>;

const MAX_LISTED = 500;
const SIDES: Side[] = ["base", "ours", "theirs"];
const KINDS: Record<string, string> = {
  divergent_insert: "Both added it, differently",
  divergent_update: "Both changed it, differently",
  delete_vs_update: "One removed it, the other changed it",
  orphan_edge: "An edge lost its node",
  unique_violation: "Two entities hold a value that must be unique",
  cardinality_violation: "Too many or too few edges",
  value_constraint_violation: "A value breaks a rule",
};
const idOf = (conflict: Conflict): string => `${conflict.entity_kind}:${conflict.type_name}:${conflict.entity_id ?? ""}`;

export function Merge() {
  const [source = "", target = "main"] = place.value.rest;
  const branches = refs.value.data?.branches ?? [];
  const open = (nextSource: string, nextTarget: string) => go(link("merge", [nextSource, nextTarget]));
  return (
    <>
      <Head title="Merge" text="What a merge would do is shown before it is done. Ours is the target, theirs is the source." />
      <div class="row">
        <label class="row">Source <select value={source} data-filter onChange={(event) => open(event.currentTarget.value, target)}>{!source && <option value="">Choose a branch</option>}{branches.map((branch) => <option key={branch.name}>{branch.name}</option>)}</select></label>
        <span aria-hidden="true">→</span>
        <label class="row">Target <select value={target} onChange={(event) => open(source, event.currentTarget.value)}>{branches.map((branch) => <option key={branch.name}>{branch.name}</option>)}</select></label>
        {source && <a class="button" href={link("diff", [target, source], { tab: "picture" })}>Compare as a picture</a>}
      </div>
      {source ? <ReviewOf key={`${source}\0${target}`} source={source} target={target} /> : <Loaded load={refs.value}>{({ branches }) => <Choices branches={branches} />}</Loaded>}
    </>
  );
}

function Choices({ branches }: { branches: BranchDetail[] }) {
  const ahead = branches.filter((branch) => branch.name !== "main" && branch.ahead > 0);
  if (!ahead.length) return <Empty title="Nothing waits for a merge">No branch has commits that main has not.</Empty>;
  return (
    <div class="card"><div class="body"><ul class="list">
      {ahead.map((branch) => <li key={branch.name} class="row"><a class="chip branch" href={link("merge", [branch.name, "main"])}>{branch.name}</a><span class="grow ellipsis muted">{shown(branch.head.message ?? "", 80)}</span><span class="small muted">{branch.ahead} ahead · {branch.behind} behind</span></li>)}
    </ul></div></div>
  );
}

const storageKey = (review: Review): string => `omnigraph.review.${graph.value}.${review.source_commit}.${review.target_commit}`;

function ReviewOf({ source, target }: { source: string; target: string }) {
  const [attempt, setAttempt] = useState(0);
  const [stale, setStale] = useState<Decisions | null>(null);
  const load = useLoad([graph.value, source, target, attempt], (stop) => ask<Review>(graphPath(graph.value, "/branches/merge"), { source, target, dry_run: true }, stop));
  return (
    <Loaded load={load}>
      {(review) => (
        <Decide
          key={review.source_commit + review.target_commit + attempt}
          review={review}
          stale={stale}
          isLoading={load.isLoading}
          onMoved={(decisions) => {
            setStale(decisions);
            setAttempt(attempt + 1);
          }}
        />
      )}
    </Loaded>
  );
}

const OUTCOMES: Record<string, string> = { already_up_to_date: "Already up to date", fast_forward: "Fast forward", merged: "Merges without a conflict", conflicts: "Conflicts" };

function Decide({ review, stale, isLoading, onMoved }: { review: Review; stale: Decisions | null; isLoading: boolean; onMoved: (decisions: Decisions) => void }) {
  const { source, target, conflicts } = review;
  const [decisions, setDecisions] = useState<Decisions>(() => {
    try {
      const kept = { ...stale, ...(JSON.parse(localStorage.getItem(storageKey(review)) ?? "{}") as Decisions) };
      // A decision is about the values that were seen: with other values it is none.
      return Object.fromEntries(conflicts.flatMap((conflict) => (kept[idOf(conflict)]?.seen === conflict.digest ? [[idOf(conflict), kept[idOf(conflict)]!]] : [])));
    } catch {
      return {};
    }
  });
  const [at, setAt] = useState(0);
  const [message, setMessage] = useState("");
  const [deletes, setDeletes] = useState(false);
  const [done, setDone] = useState<{ commit?: Commit; outcome: string } | null>(null);
  useEffect(() => {
    if (conflicts.length) localStorage.setItem(storageKey(review), JSON.stringify(decisions));
  }, [decisions]);
  const left = conflicts.filter((conflict) => !decisions[idOf(conflict)]).length;
  const current = conflicts[Math.min(at, conflicts.length - 1)];
  const write = useWrite<{ commit?: Commit; outcome: string }>((value) => {
    localStorage.removeItem(storageKey(review));
    setDone(value);
    readAgain();
  });
  const hasMoved = write.error && ["precondition_failed", "stale_resolution"].includes(write.error.code);
  const decide = (conflict: Conflict, decision: Omit<Decision, "seen"> | null) => {
    const next = { ...decisions };
    if (decision) next[idOf(conflict)] = { ...decision, seen: conflict.digest };
    else delete next[idOf(conflict)];
    setDecisions(next);
  };
  const step = (by: number) => {
    const next = Math.max(0, Math.min(conflicts.length - 1, at + by));
    setAt(next);
  };
  const toNextOpen = (after: Decisions) => {
    const next = conflicts.findIndex((conflict, number) => number > at && !after[idOf(conflict)]);
    if (next >= 0) setAt(next);
  };
  const choose = (take: Take) => {
    if (!current || whyNotTake(current, take)) return;
    decide(current, { take });
    toNextOpen({ ...decisions, [idOf(current)]: { take, seen: current.digest } });
  };
  useKeys((event) => {
    const takes: Record<string, Take> = { "1": "ours", "2": "theirs", "3": "base", x: "delete" };
    if (done || !conflicts.length) return false;
    if (takes[event.key]) choose(takes[event.key]!);
    else if (event.key === "n") step(1);
    else if (event.key === "p") step(-1);
    else return false;
    return true;
  });
  const publish = () =>
    write.run({
      method: "POST",
      path: graphPath(graph.value, "/branches/merge"),
      body: {
        source,
        target,
        expect: { source: review.source_commit, target: review.target_commit },
        ...(message ? { message } : {}),
        ...(deletes ? { delete_branch: true } : {}),
        resolutions: conflicts.map((conflict) => resolution(conflict, decisions[idOf(conflict)]!)) as unknown as Json,
      },
    });
  // A table that is taken over as a whole is not counted by the review, but by a diff of the two commits.
  const whole = Object.entries(review.changes).filter(([, each]) => each.inserted === undefined).map(([key]) => key.split(":")[1]!);
  const counted = useLoad([review.source_commit, review.target_commit, whole], async (stop) => {
    if (!whole.length) return [];
    return (await get<Diff>(pathOf(graphPath(graph.value, "/diff"), { from: review.target_commit, to: review.source_commit, type: whole, summary: true }), stop)).summary ?? [];
  });
  const changes = Object.entries(review.changes).map(([key, each]) => {
    const row = counted.data?.find((one) => `${one.entity_kind}:${one.type_name}` === key);
    return [key, row ? { inserted: row.insert, updated: row.update, deleted: row.delete } : each] as const;
  });
  const total = changes.reduce((sum, [, each]) => sum + (each.inserted ?? 0) + (each.updated ?? 0) + (each.deleted ?? 0), 0);
  if (done) {
    return (
      <div class="card"><Empty title={done.outcome === "already_up_to_date" ? "There was nothing to merge" : `${source} is merged into ${target}`}>
        {done.commit && <p>Commit <CommitLink id={done.commit.graph_commit_id} /></p>}
        <div class="row">
          {done.commit && <a class="button primary" href={link("commit", [done.commit.graph_commit_id])}>Look at the merge commit</a>}
          <DeleteBranch name={source} isGone={deletes} />
        </div>
      </Empty></div>
    );
  }
  const why = left ? `${plural(left, "conflict")} to decide` : review.outcome === "already_up_to_date" ? "there is nothing to merge" : review.schema_conflicts?.length ? "the schemas contradict each other" : whyNot("branch_merge", target);
  return (
    <>
      {hasMoved && (
        <div class="problem" role="alert">
          <strong>A branch has moved since this review</strong>
          <span>{write.error!.message}</span>
          <div><Button kind="primary" onClick={() => onMoved(decisions)}>Review again</Button></div>
        </div>
      )}
      {stale && !isLoading && <div class="band" role="status">Reviewed again at the new commits. {plural(conflicts.filter((conflict) => stale[idOf(conflict)] && !decisions[idOf(conflict)]).length, "decision")} must be made again.</div>}
      <section class="card" aria-label="Outcome">
        <div class="body outcome">
          <span class={`chip ${conflicts.length ? "update" : review.outcome === "already_up_to_date" ? "" : "insert"}`}>{OUTCOMES[review.outcome]}</span>
          <strong>{conflicts.length ? `${plural(conflicts.length, "conflict")}, ${conflicts.length - left} decided` : review.outcome === "already_up_to_date" ? `${target} has everything of ${source}` : plural(total, "change")}</strong>
          {changes.map(([key, each]) => (
            <span key={key} class="row tight small"><TypeName name={key.split(":")[1]!} kind={key.startsWith("edge") ? "edge" : "node"} />{(["inserted", "updated", "deleted"] as const).map((op) => (each[op] ?? 0) > 0 && <span key={op}><Sign op={op === "inserted" ? "insert" : op === "updated" ? "update" : "delete"} />{count(each[op]!)}</span>)}</span>
          ))}
          <span class="grow" />
          <span class="muted small">{shortId(review.source_commit)} → {shortId(review.target_commit)}</span>
        </div>
      </section>
      {(review.schema_conflicts ?? []).length > 0 && <div class="problem" role="alert"><strong>The schemas contradict each other</strong>{review.schema_conflicts!.map((each, number) => <span key={number}>{shown(each.message ?? JSON.stringify(each), 500)}</span>)}</div>}
      {conflicts.length > 0 && current && (
        <div class="split left">
          <ConflictList conflicts={conflicts} decisions={decisions} stale={stale} at={at} onChoose={setAt} />
          <ConflictCard
            key={idOf(current)}
            conflict={current}
            decision={decisions[idOf(current)]}
            source={source}
            target={target}
            number={at}
            total={conflicts.length}
            onDecide={(decision) => decide(current, decision)}
            onChoose={choose}
            onStep={step}
            onAll={(take) => {
              const next = { ...decisions };
              for (const each of conflicts) if (each.kind === current.kind && !next[idOf(each)] && !whyNotTake(each, take)) next[idOf(each)] = { take, seen: each.digest };
              setDecisions(next);
            }}
          />
        </div>
      )}
      {review.outcome !== "already_up_to_date" && (
        <form class="card publish" onSubmit={(event) => { event.preventDefault(); if (!why) void publish(); }}>
          <div class="body row form">
            <label class="field grow">Message of the merge commit<input type="text" value={message} onInput={(event) => setMessage(event.currentTarget.value)} placeholder={`merge ${source}`} /></label>
            {source !== "main" && <label class="check"><input type="checkbox" checked={deletes} disabled={!!whyNot("branch_delete", source)} onChange={(event) => setDeletes(event.currentTarget.checked)} />Delete {source} afterwards</label>}
            <Button type="submit" kind="primary" why={write.isBusy ? "it is being merged" : why}>Merge {plural(total, "change")}{conflicts.length ? ` and ${plural(conflicts.length, "decision")}` : ""} into {target}</Button>
          </div>
        </form>
      )}
      {!hasMoved && write.error && (write.error.code === "merge_conflicts" ? <Problem error={write.error}>{((write.error.body.merge_conflicts ?? []) as { message: string }[]).slice(0, 20).map((each, number) => <span key={number} class="small">{shown(each.message, 300)}</span>)}</Problem> : write.problem)}
    </>
  );
}

function DeleteBranch({ name, isGone }: { name: string; isGone: boolean }) {
  const [gone, setGone] = useState(isGone);
  const write = useWrite<unknown>(() => {
    setGone(true);
    readAgain();
  });
  if (name === "main") return null;
  if (gone) return <span class="muted">The branch {name} is deleted.</span>;
  return <>{write.problem}<Button why={whyNot("branch_delete", name)} onClick={() => void write.run({ method: "DELETE", path: `${graphPath(graph.value, `/branches/${encodeURIComponent(name)}`)}?force=false` })}>Delete the branch {name}</Button></>;
}

/** Why a side cannot be taken. */
function whyNotTake(conflict: Conflict, take: Take): string {
  if (!conflict.entity_id) return "this is decided by changing a branch";
  if (conflict.kind === "cardinality_violation") return "change the edges on one of the branches";
  if (take === "base" && !conflict.base && !["orphan_edge"].includes(conflict.kind) && conflict.kind.startsWith("divergent_insert")) return "it did not exist at the base";
  if (conflict.kind === "unique_violation" && take !== "delete" && take !== "value") return "the value would still be held twice: edit it, or delete the entity";
  return "";
}

function resolution(conflict: Conflict, decision: Decision): Fields {
  const { take, seen, value } = decision;
  return { entity_kind: conflict.entity_kind, type_name: conflict.type_name, entity_id: conflict.entity_id!, take, seen, ...(value ? { value: value as unknown as Json } : {}) };
}

function ConflictList({ conflicts, decisions, stale, at, onChoose }: { conflicts: Conflict[]; decisions: Decisions; stale: Decisions | null; at: number; onChoose: (at: number) => void }) {
  const groups = useMemo(() => [...Map.groupBy(conflicts.map((conflict, number) => ({ conflict, number })), ({ conflict }) => conflict.kind)], [conflicts]);
  const keys = (event: KeyboardEvent) => {
    const by = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (!by) return;
    event.preventDefault();
    const order = groups.flatMap(([, members]) => members.map((member) => member.number));
    const next = order[Math.max(0, Math.min(order.length - 1, order.indexOf(at) + by))]!;
    onChoose(next);
    requestAnimationFrame(() => document.getElementById(`conflict-${next}`)?.focus());
  };
  return (
    <div class="card scroll conflicts" role="listbox" aria-label="Conflicts" onKeyDown={keys}>
      {groups.map(([kind, members]) => (
        <div key={kind} role="group" aria-label={KINDS[kind] ?? kind}>
          <div class="group small muted">{KINDS[kind] ?? kind} ({members.filter(({ conflict }) => decisions[idOf(conflict)]).length}/{members.length})</div>
          {members.slice(0, MAX_LISTED).map(({ conflict, number }) => {
            const decision = decisions[idOf(conflict)];
            return (
              <div key={number} id={`conflict-${number}`} class="option" role="option" aria-selected={number === at} tabIndex={number === at ? 0 : -1} onClick={() => onChoose(number)}>
                <TypeName name={conflict.type_name} kind={conflict.entity_kind} />
                <span class="ellipsis grow"><bdi>{shown(conflict.entity_id ?? "", 60)}</bdi></span>
                {decision ? <span class="done small">✓ {decision.take}</span> : stale?.[idOf(conflict)] ? <span class="chip update">changed</span> : <span class="small muted">open</span>}
              </div>
            );
          })}
          {members.length > MAX_LISTED && <div class="group small muted">and {count(members.length - MAX_LISTED)} more: n and p lead to them</div>}
        </div>
      ))}
    </div>
  );
}

const valuesOf = (image: Image | undefined): Fields => (image ? { ...image.properties, ...(image.endpoints ?? {}) } : {});

interface CardProps {
  conflict: Conflict;
  decision: Decision | undefined;
  source: string;
  target: string;
  number: number;
  total: number;
  onDecide: (decision: Omit<Decision, "seen"> | null) => void;
  onChoose: (take: Take) => void;
  onStep: (by: number) => void;
  onAll: (take: Take) => void;
}

function ConflictCard({ conflict, decision, source, target, number, total, onDecide, onChoose, onStep, onAll }: CardProps) {
  const [isEditing, setEditing] = useState(false);
  const names = [...new Set([...conflict.fields, ...Object.keys(valuesOf(conflict.ours)), ...Object.keys(valuesOf(conflict.theirs)), ...Object.keys(valuesOf(conflict.base))])];
  const isPerProperty = !!conflict.ours && !!conflict.theirs && conflict.kind.startsWith("divergent");
  const picks = decision?.picks ?? {};
  const chosen = (name: string): Side | null => picks[name] ?? (decision?.take === "ours" || decision?.take === "theirs" || decision?.take === "base" ? decision.take : decision?.take === "value" && decision.picks ? "ours" : null);
  const pick = (name: string, side: Side) => {
    const next = { ...(decision?.take !== "value" && decision && SIDES.includes(decision.take as Side) ? Object.fromEntries(conflict.fields.map((field) => [field, decision.take as Side])) : picks), [name]: side };
    const whole = valuesOf(conflict.ours);
    for (const [field, from] of Object.entries(next)) whole[field] = valuesOf(conflict[from])[field] ?? null;
    onDecide({ take: "value", picks: next, value: imageOf(conflict, whole) });
  };
  const same = decision?.take === "ours" || decision?.take === "theirs" || decision?.take === "base" || decision?.take === "delete" ? decision.take : null;
  return (
    <section class="card" aria-label="Conflict" aria-live="polite">
      <header>
        <h2 class="row tight"><TypeName name={conflict.type_name} kind={conflict.entity_kind} />{conflict.entity_id && (conflict.kind === "cardinality_violation" ? <a href={link("browse", [conflict.type_name], { filter: `from.eq:${conflict.entity_id}`, rev: source })}><bdi>{shown(conflict.entity_id, 80)}</bdi></a> : <EntityLink type={conflict.type_name} id={conflict.entity_id} />)}</h2>
        <span class="spacer" />
        <span class="muted small">{number + 1} of {total}</span>
        <Button onClick={() => onStep(-1)} why={number === 0 ? "this is the first" : ""} label="Previous conflict">←</Button>
        <Button onClick={() => onStep(1)} why={number === total - 1 ? "this is the last" : ""} label="Next conflict">→</Button>
      </header>
      <div class="body panel-tab">
        <p class="wrap">{shown(conflict.message, 1000)}</p>
        <div class="scroll">
          <table class="three">
            <thead><tr><th>Property</th><th>Base</th><th>Ours <span class="muted">({target})</span></th><th>Theirs <span class="muted">({source})</span></th></tr></thead>
            <tbody>
              {names.map((name) => {
                const differs = conflict.fields.includes(name) || SIDES.some((side) => conflict[side] && !sameValue(valuesOf(conflict[side])[name], valuesOf(conflict.ours ?? conflict.theirs)[name]));
                return (
                  <tr key={name}>
                    <th scope="row">{name}</th>
                    {SIDES.map((side) => {
                      const has = conflict[side] !== undefined;
                      const value = valuesOf(conflict[side])[name];
                      return (
                        <td key={side} class={differs && has ? "differs" : ""}>
                          {!has ? <span class="null">no entity</span> : isPerProperty && conflict.fields.includes(name) ? <button type="button" class="pick" aria-pressed={chosen(name) === side} aria-label={`${name} ${side}: ${shown(value, 60)}`} onClick={() => pick(name, side)}><Value value={value} limit={400} /></button> : <Value value={value} limit={400} />}
                        </td>
                      );
                    })}
                  </tr>
                );
              })}
            </tbody>
          </table>
        </div>
        <WaysOut conflict={conflict} source={source} target={target} />
        <div class="row" role="group" aria-label="Decision">
          {([["ours", "Ours", "1"], ["theirs", "Theirs", "2"], ["base", "Base", "3"], ["delete", conflict.entity_kind === "edge" ? "Drop the edge" : "Delete", "x"]] as const).map(([take, text, key]) => (
            <Button key={take} aria-pressed={decision?.take === take} why={whyNotTake(conflict, take)} onClick={() => onChoose(take)}>{text}{take !== "delete" && conflict[take] === undefined ? " (no entity)" : ""} <kbd>{key}</kbd></Button>
          ))}
          <Button aria-pressed={decision?.take === "value"} why={whyNotTake(conflict, "value")} onClick={() => setEditing(!isEditing)} aria-expanded={isEditing}>Edit</Button>
          <span class="grow" />
          {decision && <Button kind="plain" onClick={() => onDecide(null)}>Undo</Button>}
          {same && <Button kind="plain" onClick={() => onAll(same)}>Same for all open ones of this kind</Button>}
        </div>
        {isEditing && <EditForm conflict={conflict} initial={decision?.value ? valuesOf(decision.value) : valuesOf(conflict.ours ?? conflict.theirs ?? conflict.base)} onSave={(value) => { onDecide({ take: "value", value }); setEditing(false); }} />}
        <label class="field">Note (kept in this browser)<input type="text" value={decision?.note ?? ""} disabled={!decision} onInput={(event) => decision && onDecide({ ...decision, note: event.currentTarget.value })} /></label>
      </div>
    </section>
  );
}

function imageOf(conflict: Conflict, values: Fields): Image {
  const { from, to, ...properties } = values;
  if (conflict.entity_kind !== "edge") return { properties: values };
  return { properties, endpoints: { from: String(from), to: String(to) } };
}

/** What resolves a broken rule, in words. */
function WaysOut({ conflict, source, target }: { conflict: Conflict; source: string; target: string }) {
  const texts: Record<string, string[]> = {
    orphan_edge: ["Drop the edge (x).", `Or put its node back on ${target} and review again.`],
    unique_violation: ["Edit: give this entity another value.", "Or delete it (x).", `Or change the other entity on ${source} and review again.`],
    cardinality_violation: [`Delete or add edges of this node on ${source} or ${target}, then review again.`],
    value_constraint_violation: ["Edit: give a value that fits the rule.", "Or take the base (3), or delete it (x)."],
  };
  const ways = texts[conflict.kind];
  const held = [...conflict.message.matchAll(/held by '(.*?)' and '(.*?)'/g)].flatMap((found) => [found[1]!, found[2]!]);
  if (!ways) return null;
  return (
    <div class="row small" role="note">
      <strong>Ways out:</strong>
      {ways.map((way) => <span key={way}>{way}</span>)}
      {held.map((id) => <EntityLink key={id} type={conflict.type_name} id={id} />)}
      {conflict.kind === "cardinality_violation" && <a class="button" href={link("query", [], { rev: source })}>Change {source}</a>}
    </div>
  );
}

/** A form of the type's properties, which says what does not fit while it is typed. */
function EditForm({ conflict, initial, onSave }: { conflict: Conflict; initial: Fields; onSave: (value: Image) => void }) {
  const info = typeNamed(conflict.type_name);
  const [texts, setTexts] = useState<Record<string, string>>(() => Object.fromEntries(Object.entries(initial).map(([name, value]) => [name, value === null ? "" : typeof value === "string" ? value : JSON.stringify(value)])));
  if (!info || !catalog.value.data) return null;
  const keys = "key" in info ? info.key : [];
  const fields = [...("max_out" in info ? ["from", "to"] : []), ...info.properties.filter((property) => property.scalar !== "Blob").map((property) => property.name)];
  const checked = fields.map((name) => {
    const property = info.properties.find((each) => each.name === name);
    const text = texts[name] ?? "";
    let value: Json = text;
    let wrong = "";
    if (!property) wrong = text ? "" : "it is needed";
    else if (text === "") {
      value = null;
      if (!property.nullable) wrong = "it is needed";
    } else if (property.list || property.vector_dim) {
      try {
        value = listOf(text, property.scalar);
      } catch {
        wrong = "a JSON list";
      }
    } else if (/^[IUF]\d+$/.test(property.scalar)) {
      value = numberOf(text, property.scalar);
      const size = Number(text);
      const range = info.constraints.find((each) => each.kind === "range" && each.fields.includes(name));
      if (Number.isNaN(size) || (/^[IU]/.test(property.scalar) && !Number.isInteger(size))) wrong = `a number (${property.scalar})`;
      else if (range && ((range.minimum !== undefined && size < range.minimum) || (range.maximum !== undefined && size > range.maximum))) wrong = `${range.minimum ?? ""} to ${range.maximum ?? ""}`;
    } else if (property.scalar === "Bool") {
      value = text === "true";
      if (!["true", "false"].includes(text)) wrong = "true or false";
    } else if (property.enum && !property.enum.includes(text)) wrong = `one of ${property.enum.join(", ")}`;
    else if (property.scalar === "Date" && Number.isNaN(Date.parse(text))) wrong = "a date such as 2026-01-31";
    return { name, text, value, wrong, property, isKey: keys.includes(name) };
  });
  const isWrong = checked.some((field) => field.wrong);
  return (
    <form class="panel-tab" aria-label="Edit" onSubmit={(event) => { event.preventDefault(); if (!isWrong) onSave(imageOf(conflict, Object.fromEntries(checked.map((field) => [field.name, field.value])))); }}>
      <div class="cards">
        {checked.map((field) => (
          <label key={field.name} class="field">
            {field.name}{field.property ? `: ${field.property.type}` : ""}
            {field.property?.enum ? (
              <select value={field.text} onChange={(event) => setTexts({ ...texts, [field.name]: event.currentTarget.value })}><option value=""></option>{field.property.enum.map((word) => <option key={word}>{word}</option>)}</select>
            ) : (
              <input type="text" value={field.text} readOnly={field.isKey} aria-invalid={!!field.wrong} onInput={(event) => setTexts({ ...texts, [field.name]: event.currentTarget.value })} />
            )}
            {field.wrong && <span class="danger-text">{field.wrong}</span>}
          </label>
        ))}
      </div>
      <div><Button type="submit" kind="primary" why={isWrong ? "a value does not fit" : ""}>Use these values</Button></div>
    </form>
  );
}
