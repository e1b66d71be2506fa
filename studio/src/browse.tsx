/** One type as a table: pages of one commit, filters by column, facets, the query behind it. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ask, graphPath, pathOf, read, saveFile, type Fields, type Json } from "./api";
import { EntityPanel } from "./entity";
import { count, csv, numberOf, plural, shortId, shown } from "./format";
import { catalog, commitId, go, graph, isEdge, link, param, place, setParams, typeNamed } from "./state";
import { Button, CommitLink, copy, Dialog, Empty, EntityLink, Head, MenuButton, Problem, Skeleton, TypeName, useKeys, useLater, useLoad, useWindow } from "./ui";
import type { EdgeInfo, EntityPage, NodeInfo, Property, Result } from "./wire";

const PAGE = 100;
const ROW = 32;

export function Browse() {
  const data = catalog.value.data;
  const [type] = place.value.rest;
  if (!data) return <Skeleton lines={12} />;
  const all = [...data.nodes, ...data.edges];
  if (!all.length) return <Empty title="The graph has no types">A schema declares them.</Empty>;
  const info = typeNamed(type ?? "");
  return (
    <>
      <Head title={info ? <TypeName name={info.name} /> : "Browse"} text={info && <>Commit <CommitLink id={commitId.value} />{info.description ? ` · ${info.description}` : ""}</>}>
        <select aria-label="Type" value={info?.name ?? ""} onChange={(event) => go(link("browse", [event.currentTarget.value]))}>
          {!info && <option value="">Choose a type</option>}
          <optgroup label="Nodes">{data.nodes.map((node) => <option key={node.name} value={node.name}>{node.name} ({count(node.entity_count)})</option>)}</optgroup>
          <optgroup label="Edges">{data.edges.map((edge) => <option key={edge.name} value={edge.name}>{edge.name} ({count(edge.entity_count)})</option>)}</optgroup>
        </select>
      </Head>
      {info ? <TypeTable key={info.name} info={info} /> : type ? <Empty title={`There is no type ${shown(type, 80)} at this revision`}><a href={link("browse")}>All types</a></Empty> : <TypeList types={all} />}
    </>
  );
}

const TypeList = ({ types }: { types: (NodeInfo | EdgeInfo)[] }) => (
  <div class="card"><div class="body">
    <ul class="list">
      {types.map((type) => (
        <li key={type.name}><a class="row" href={link("browse", [type.name])}><span class="grow"><TypeName name={type.name} /></span><span class="number">{count(type.entity_count)}</span></a></li>
      ))}
    </ul>
  </div></div>
);

interface Column {
  name: string;
  property?: Property;
  width: number;
}

function columnsOf(info: NodeInfo | EdgeInfo): Column[] {
  const ends = isEdge(info) ? ["from", "to"] : [];
  const keyIsId = !isEdge(info) && info.key.length === 1;
  const own = info.properties.filter((property) => property.scalar !== "Blob");
  const widths: Record<string, number> = { String: 200, Bool: 80, Date: 120, DateTime: 190 };
  return [
    ...(keyIsId ? [] : [{ name: "id", width: 120 }]),
    ...ends.map((name) => ({ name, width: 200 })),
    ...own.map((property) => ({ name: property.name, property, width: property.enum ? 130 : property.list ? 200 : (widths[property.scalar] ?? 110) })),
  ];
}

/** The value of a filter as a parameter of the query. */
function valueOf(text: string, op: string, property: Property | undefined): Json {
  const one = (each: string): Json => {
    if (property && /^[IUF]\d+$/.test(property.scalar) && each !== "") return numberOf(each, property.scalar);
    if (property?.scalar === "Bool") return each === "true";
    return each;
  };
  return op === "in" ? (JSON.parse(text) as string[]).map(one) : one(text);
}

const rewritten = (query: string, ending: string): string => query.replace(/ {2}return \{[\s\S]*$/, ending + "\n}\n");

interface First {
  query: string;
  params: Record<string, Json>;
  page: EntityPage;
}

function TypeTable({ info }: { info: NodeInfo | EdgeInfo }) {
  const name = graph.value;
  const commit = commitId.value;
  const filters = place.value.params.getAll("filter");
  const order = param("order");
  const row = param("row");
  const [hidden, setHidden] = useState<Set<string>>(new Set());
  const [isChoosing, setChoosing] = useState(false);
  const columns = useMemo(() => columnsOf(info), [info]);
  const propertyOf = (column: string) => columns.find((each) => each.name === column)?.property;

  const first = useLoad([name, commit, info.name, filters, order], async (stop): Promise<First> => {
    const path = pathOf(graphPath(name, `/entities/${encodeURIComponent(info.name)}`), { rev: commit, limit: PAGE, order, filter: filters });
    const { value, response } = await read<EntityPage>(path, stop);
    const params: Record<string, Json> = {};
    let number = 0;
    for (const filter of filters) {
      const [, column, op, text] = filter.match(/^(\w+)\.(\w+)(?::([\s\S]*))?$/) ?? [];
      if (text !== undefined) params[`v${number++}`] = valueOf(text, op!, propertyOf(column!));
    }
    return { query: decodeURIComponent(response.headers.get("omnigraph-query") ?? ""), params, page: value };
  });
  const query = first.data?.query ?? "";
  const params = first.data?.params ?? {};
  const asked = JSON.stringify([query, params]);
  const total = useLoad([commit, asked, first.isLoading], async (stop) => {
    if (first.isLoading || !query || !filters.length) return { asked: "", n: 0 };
    const text = rewritten(query, "  return { count($e) as n }");
    const result = await ask<Result>(graphPath(name, "/query"), { query: text, params, snapshot: commit }, stop);
    return { asked, n: Number(result.rows[0]?.n ?? 0) };
  });
  const page = first.data && !first.isLoading ? first.data.page : undefined;
  const rows = !page ? 0 : !filters.length ? info.entity_count : total.data?.asked === asked ? total.data.n : page.rows.length;
  const shownColumns = columns.filter((column) => !hidden.has(column.name));

  const exportRows = async (kind: "csv" | "json") => {
    const text = query.replace(/limit \d+ offset \d+/, "limit 100000 offset 0");
    const result = await ask<Result>(graphPath(name, "/query"), { query: text, params, snapshot: commit });
    if (kind === "csv") saveFile(`${info.name}.csv`, csv(result.columns ?? columns.map((column) => column.name), result.rows), "text/csv");
    else saveFile(`${info.name}.json`, JSON.stringify(result.rows, null, 1), "application/json");
  };
  return (
    <div class={row ? "split" : "fill"}>
      <div class="fill">
        <div class="row">
          <span class="muted" role="status">
            {first.isLoading ? "Loading…" : first.error ? "" : filters.length ? `${count(rows)} of ${plural(info.entity_count, "row")}` : plural(info.entity_count, "row")}
          </span>
          {filters.map((filter) => (
            <Button key={filter} onClick={() => setParams({ filter: filters.filter((other) => other !== filter) })} title="Remove this filter"><span class="mono ellipsis">{shown(filter, 40)}</span> ×</Button>
          ))}
          <span class="grow" />
          <Button onClick={() => setChoosing(true)} aria-haspopup="dialog">Columns</Button>
          <MenuButton
            label="Copy and export"
            text="Export"
            items={[
              { text: "Copy the query", run: () => void copy(query, "The query") },
              { text: "Open the query", run: () => go(link("query", [], { q: query, params: JSON.stringify(params) })) },
              { text: "Save as CSV", run: () => void exportRows("csv") },
              { text: "Save as JSON", run: () => void exportRows("json") },
              { text: "Copy the commit id", run: () => void copy(commit, shortId(commit)) },
            ]}
          />
        </div>
        <Facets info={info} query={query} params={params} filters={filters} />
        <div class="card fill">
          {first.error ? (
            <Problem error={first.error}>{filters.length > 0 && <div><Button onClick={() => setParams({ filter: null })}>Remove the filters</Button></div>}</Problem>
          ) : (
            <Rows info={info} columns={shownColumns} first={first.data} isLoading={first.isLoading} total={rows} commit={commit} order={order} filters={filters} selected={row} />
          )}
        </div>
      </div>
      {row && <EntityPanel type={info.name} id={row} onClose={() => setParams({ row: null })} />}
      {isChoosing && <ColumnChooser columns={columns} hidden={hidden} setHidden={setHidden} query={query} params={params} onClose={() => setChoosing(false)} />}
    </div>
  );
}

type RowsProps = { info: NodeInfo | EdgeInfo; columns: Column[]; first: First | undefined; isLoading: boolean; total: number; commit: string; order: string; filters: string[]; selected: string };

function Rows({ info, columns, first, isLoading, total, commit, order, filters, selected }: RowsProps) {
  const frame = useRef<HTMLDivElement>(null);
  const pages = useRef(new Map<number, Fields[]>());
  const [, setTick] = useState(0);
  const [active, setActive] = useState(0);
  const source = first?.query ?? "";
  useEffect(() => {
    pages.current = new Map(first ? [[0, first.page.rows]] : []);
    setTick((old) => old + 1);
    if (frame.current) frame.current.scrollTop = 0;
    setActive(0);
  }, [first]);
  const view = useWindow(total, ROW, frame, 60);
  const from = Math.floor(view.first / PAGE);
  const to = Math.floor(Math.max(view.last - 1, 0) / PAGE);
  const wanted = useLater([from, to], 60);
  useEffect(() => {
    const stop = new AbortController();
    const own = pages.current;
    for (let page = wanted[0]!; page <= wanted[1]! && first && page * PAGE < total; page++) {
      if (own.has(page)) continue;
      own.set(page, []);
      const query = source.replace(/limit \d+ offset \d+/, `limit ${PAGE} offset ${page * PAGE}`);
      ask<Result>(graphPath(graph.value, "/query"), { query, params: first.params, snapshot: commit }, stop.signal).then(
        (result) => {
          // A reserved word is a column under another name; the order is the same.
          const rows = result.rows.map((row) => Object.fromEntries(Object.values(row).map((value, at) => [first.page.columns[at]!, value])));
          own.set(page, rows);
          setTick((old) => old + 1);
        },
        () => own.delete(page),
      );
    }
    return () => stop.abort();
  }, [wanted[0], wanted[1], source, total]);
  const rowAt = (number: number): Fields | undefined => pages.current.get(Math.floor(number / PAGE))?.[number % PAGE];
  const open = (number: number) => {
    const found = rowAt(number);
    if (found) setParams({ row: String(found.id) });
  };
  const move = (number: number) => {
    const next = Math.max(0, Math.min(total - 1, number));
    setActive(next);
    view.reveal(next);
    requestAnimationFrame(() => requestAnimationFrame(() => frame.current?.querySelector<HTMLElement>(`[data-row="${next}"]`)?.focus({ preventScroll: true })));
  };
  const keys = (event: KeyboardEvent) => {
    if ((event.target as HTMLElement).dataset.row === undefined) return;
    const steps: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20, Home: -total, End: total };
    if (event.key in steps) move(active + steps[event.key]!);
    else if (event.key === "Enter") open(active);
    else return;
    event.preventDefault();
  };
  useKeys((event) => event.key === "Escape" && !!param("row") && (setParams({ row: null }), true));
  const sort = (column: string) => setParams({ order: order === column ? `${column}:desc` : order === `${column}:desc` ? null : column });
  const numbers: number[] = [];
  for (let number = view.first; number < view.last; number++) numbers.push(number);
  return (
    <>
    <div class={`grid${total === 0 || (isLoading && !first) ? " bare" : ""}`} ref={frame} role="grid" aria-label={info.name} aria-rowcount={total + 1} aria-busy={isLoading} onKeyDown={keys}>
      <div class="header" role="row" aria-rowindex={1}>
        {columns.map((column) => (
          <div key={column.name} class="cell" role="columnheader" style={{ width: `${column.width}px` }} aria-sort={order === column.name ? "ascending" : order === `${column.name}:desc` ? "descending" : "none"}>
            {column.property?.vector_dim || column.property?.list ? (
              <span class="small muted">{column.name}</span>
            ) : (
              <button type="button" class="sort" onClick={() => sort(column.name)} title={column.property?.type ?? "text"}>
                <span class="ellipsis">{column.name}</span>
                <span aria-hidden="true">{order === column.name ? "↑" : order === `${column.name}:desc` ? "↓" : ""}</span>
              </button>
            )}
            <FilterCell column={column} filters={filters} />
          </div>
        ))}
      </div>
      <div role="rowgroup" style={{ height: `${view.height}px`, position: "relative" }}>
        {numbers.map((number) => {
          const row = rowAt(number);
          return (
            <div
              key={number}
              class="line"
              role="row"
              data-row={number}
              aria-rowindex={number + 2}
              aria-selected={row !== undefined && String(row.id) === selected}
              tabIndex={number === Math.min(Math.max(active, view.first), Math.max(view.last - 1, 0)) ? 0 : -1}
              style={{ top: `${view.offset(number)}px` }}
              onClick={() => { setActive(number); open(number); }}
              onFocus={() => setActive(number)}
            >
              {columns.map((column) => (
                <div key={column.name} class={`cell${isNumber(column) ? " number" : ""}`} role="gridcell" style={{ width: `${column.width}px` }}>
                  {row ? <Cell info={info} column={column} value={row[column.name]} /> : number < total ? <span class="muted">…</span> : null}
                </div>
              ))}
            </div>
          );
        })}
      </div>
    </div>
    {!isLoading && total === 0 && <Empty title={filters.length ? "No row fits the filters" : `There is no ${info.name} yet`}>{filters.length ? <Button onClick={() => setParams({ filter: null })}>Remove the filters</Button> : <a class="button" href={link("loads")}>Load a file</a>}</Empty>}
    {isLoading && !first && <Skeleton lines={10} />}
    </>
  );
}

const isNumber = (column: Column) => column.property !== undefined && !column.property.list && !column.property.vector_dim && /^[IUF]\d/.test(column.property.scalar);

function Cell({ info, column, value }: { info: NodeInfo | EdgeInfo; column: Column; value: Json | undefined }) {
  if (value === null || value === undefined) return <span class="null">–</span>;
  if (isEdge(info) && (column.name === "from" || column.name === "to")) return <span onClick={(event) => event.stopPropagation()}><EntityLink type={info[column.name]} id={String(value)} /></span>;
  if (column.property?.vector_dim && Array.isArray(value)) return <Spark values={value.map(Number)} />;
  if (Array.isArray(value)) return <bdi>{shown(value.map((each) => shown(each, 60)).join(", "), 200)}</bdi>;
  return <bdi>{shown(value, 200)}</bdi>;
}

function Spark({ values }: { values: number[] }) {
  const step = Math.max(1, Math.ceil(values.length / 24));
  const few = values.filter((_, at) => at % step === 0).slice(0, 24);
  const most = Math.max(...few.map(Math.abs)) || 1;
  return (
    <span class="spark" role="img" aria-label={`a vector of ${values.length}`}>
      {few.map((value, at) => <i key={at} style={{ height: `${Math.max(1, (15 * Math.abs(value)) / most)}px` }} />)}
    </span>
  );
}

/** The filter of one column: as the type wants it. */
function FilterCell({ column, filters }: { column: Column; filters: string[] }) {
  const { name, property } = column;
  const own = filters.find((filter) => filter.startsWith(`${name}.`)) ?? "";
  const set = (filter: string | null) => setParams({ filter: [...filters.filter((other) => !other.startsWith(`${name}.`)), ...(filter ? [filter] : [])], row: null });
  if (property?.vector_dim) return null;
  if (property?.enum || property?.scalar === "Bool") {
    const choices = property.enum ?? ["true", "false"];
    return (
      <select aria-label={`Filter ${name}`} data-set={own || undefined} value={own.match(/^\w+\.eq:(.*)$/s)?.[1] ?? (own.endsWith(".isnull") ? "\0null" : "")} onChange={(event) => set(event.currentTarget.value === "" ? null : event.currentTarget.value === "\0null" ? `${name}.isnull` : `${name}.eq:${event.currentTarget.value}`)}>
        <option value="">any</option>
        {choices.map((choice) => <option key={choice} value={choice}>{choice}</option>)}
        {property.nullable && <option value={"\0null"}>null</option>}
      </select>
    );
  }
  const isText = !property || property.scalar === "String";
  const placeholder = property?.list ? "has…" : isText ? "contains…" : "= or > < …";
  const text = own.match(/^\w+\.contains:(.*)$/s)?.[1] ?? own.replace(/^\w+\.(eq|ge|gt|le|lt|ne|prefix):/, (_, op: string) => ({ eq: "", ge: ">=", gt: ">", le: "<=", lt: "<", ne: "!=", prefix: "^" })[op] ?? "");
  const apply = (typed: string) => {
    const [, sign = "", value = ""] = typed.trim().match(/^(>=|<=|!=|>|<|=|\^)?\s*([\s\S]*)$/) ?? [];
    const ops: Record<string, string> = { ">=": "ge", "<=": "le", ">": "gt", "<": "lt", "!=": "ne", "=": "eq", "^": "prefix" };
    set(value === "" ? null : `${name}.${ops[sign] ?? (isText || property?.list ? "contains" : "eq")}:${value}`);
  };
  return (
    <input
      type="text"
      data-filter={isText ? "" : undefined}
      data-set={own || undefined}
      aria-label={`Filter ${name}`}
      placeholder={placeholder}
      title={isText ? "text it contains; = whole, ^ beginning" : "a value, or >, >=, <, <=, != and a value"}
      defaultValue={text}
      key={own}
      onKeyDown={(event) => event.key === "Enter" && apply(event.currentTarget.value)}
      onBlur={(event) => event.currentTarget.value !== text && apply(event.currentTarget.value)}
    />
  );
}

/** How often each value occurs, for columns with few of them. */
function Facets({ info, query, params, filters }: { info: NodeInfo | EdgeInfo; query: string; params: Record<string, Json>; filters: string[] }) {
  const few = info.properties.filter((property) => (property.enum || property.scalar === "Bool") && !property.list).slice(0, 3);
  const load = useLoad([query, params, few.length], async (stop) => {
    if (!query || !few.length) return [];
    return Promise.all(
      few.map(async (property) => {
        const text = rewritten(query, `  return { $e.${property.name} as value, count($e) as n }\n  order { n desc }\n  limit 12`);
        const result = await ask<Result>(graphPath(graph.value, "/query"), { query: text, params, snapshot: commitId.value }, stop);
        return { property, rows: result.rows };
      }),
    );
  });
  if (!load.data?.length) return null;
  return (
    <div class="row small" aria-label="Facets" role="group">
      {load.data.map(({ property, rows }) => (
        <span key={property.name} class="row tight">
          <span class="muted">{property.name}</span>
          {rows.map((row) => {
            const filter = row.value === null ? `${property.name}.isnull` : `${property.name}.eq:${String(row.value)}`;
            const isOn = filters.includes(filter);
            return (
              <button key={filter} type="button" class="chip facet-chip" aria-pressed={isOn} onClick={() => setParams({ filter: isOn ? filters.filter((other) => other !== filter) : [...filters.filter((other) => !other.startsWith(`${property.name}.`)), filter] })}>
                {shown(row.value, 30)} <span class="muted">{count(Number(row.n))}</span>
              </button>
            );
          })}
        </span>
      ))}
    </div>
  );
}

function ColumnChooser({ columns, hidden, setHidden, query, params, onClose }: { columns: Column[]; hidden: Set<string>; setHidden: (next: Set<string>) => void; query: string; params: Record<string, Json>; onClose: () => void }) {
  const measured = columns.filter((column) => column.property && !column.property.list && !column.property.vector_dim).slice(0, 20);
  const load = useLoad([query], async (stop) => {
    if (!query) return {};
    const parts = measured.flatMap(({ name, property }, at) => [
      `count($e.${name}) as filled_${at}`,
      `count(distinct $e.${name}) as distinct_${at}`,
      ...(property!.scalar === "Bool" ? [] : [`min($e.${name}) as least_${at}`, `max($e.${name}) as most_${at}`]),
    ]);
    if (!parts.length) return {};
    const result = await ask<Result>(graphPath(graph.value, "/query"), { query: rewritten(query, `  return { ${["count($e) as n", ...parts].join(", ")} }`), params, snapshot: commitId.value }, stop);
    return result.rows[0] ?? {};
  });
  const row: Fields = load.data ?? {};
  return (
    <Dialog title="Columns" onClose={onClose}>
      {load.error && <Problem error={load.error} />}
      <div class="scroll">
        <table>
          <thead><tr><th>Column</th><th>Least</th><th>Most</th><th class="number">Distinct</th><th class="number">Null</th></tr></thead>
          <tbody>
            {columns.map((column) => {
              const at = measured.indexOf(column);
              const cell = (name: string) => (at < 0 ? undefined : row[`${name}_${at}`]);
              return (
                <tr key={column.name}>
                  <td>
                    <label class="check">
                      <input type="checkbox" checked={!hidden.has(column.name)} onChange={(event) => { const next = new Set(hidden); if (event.currentTarget.checked) next.delete(column.name); else next.add(column.name); setHidden(next); }} />
                      {column.name}
                    </label>
                  </td>
                  <td>{cell("least") !== undefined && shown(cell("least"), 24)}</td>
                  <td>{cell("most") !== undefined && shown(cell("most"), 24)}</td>
                  <td class="number">{cell("distinct") !== undefined && count(Number(cell("distinct")))}</td>
                  <td class="number">{cell("filled") !== undefined && count(Number(row.n) - Number(cell("filled")))}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </Dialog>
  );
}
