/** Nodes and edges on a canvas: laid out by force, drawn by type, with signs and lines for what changed. */
import ForceGraph from "force-graph";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { saveFile } from "./api";
import { shown } from "./format";
import { colours, PALETTE } from "./state";
import { Button, SIGNS } from "./ui";
import type { Op } from "./wire";

export interface PictureNode {
  key: string;
  type: string;
  label: string;
  op?: Op;
  /** Drawn faintly: it is here to show where the others are. */
  isFaded?: boolean;
  size?: number;
  isPinned?: boolean;
}

export interface PictureEdge {
  key: string;
  source: string;
  target: string;
  label: string;
  op?: Op;
  isFaded?: boolean;
  width?: number;
}

type Drawn = PictureNode & { id: string; x?: number; y?: number; fx?: number | undefined; fy?: number | undefined };
type Link = { edge: PictureEdge; source: Drawn | string; target: Drawn | string; curvature: number };

declare global {
  interface Window {
    /** For tests: where nodes are on the screen, and what drawing costs. */
    __studio?: { positions: () => Record<string, [number, number]>; frames: number[] };
  }
}

const LABELS_MOST = 120;
const NAMES_MOST = 300;

export function Picture({ nodes, edges, selected, onSelect, onExpand, label, tools, doesFit }: {
  nodes: PictureNode[];
  edges: PictureEdge[];
  selected: string;
  onSelect: (key: string) => void;
  onExpand?: (key: string) => void;
  label: string;
  tools?: preact.ComponentChildren;
  /** Show all of it again whenever its content changes. */
  doesFit?: boolean;
}) {
  const frame = useRef<HTMLDivElement>(null);
  const picture = useRef<ForceGraph<Drawn, Link> | null>(null);
  const kept = useRef(new Map<string, Drawn>());
  const state = useRef({ selected, near: new Set<string>(), onSelect, onExpand, hover: "" });
  state.current.selected = selected;
  state.current.onSelect = onSelect;
  state.current.onExpand = onExpand;
  const theme = document.documentElement.dataset.theme;
  const paint = useMemo(() => {
    const style = getComputedStyle(document.documentElement);
    const value = (name: string) => style.getPropertyValue(name).trim();
    const palette = Array.from({ length: PALETTE }, (_, slot) => value(`--type-${slot}`));
    return {
      type: (type: string) => palette[colours.value.get(type) ?? 0]!,
      insert: value("--add"), update: value("--update"), delete: value("--delete"),
      text: value("--text"), muted: value("--muted"), line: value("--strong-line"), panel: value("--panel"), focus: value("--focus"), font: value("--sans"),
    };
  }, [theme, colours.value]);
  const paintRef = useRef(paint);
  paintRef.current = paint;

  useEffect(() => {
    const element = frame.current!;
    const isCalm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const frames: number[] = [];
    let began = 0;
    /** Whether this frame has the discs: they are drawn with the first node, above the lines. */
    let hasDiscs = false;
    /** Names that this frame has, with the middles of their top edges; and what is covered by them, on the screen. */
    let names = new Map<Drawn, [number, number]>();
    const covered: [number, number, number][] = [];
    const graph = new ForceGraph<Drawn, Link>(element)
      .width(element.clientWidth)
      .height(element.clientHeight)
      .nodeId("id")
      .nodeLabel(() => "")
      .cooldownTime(isCalm ? 0 : 2000)
      .d3VelocityDecay(0.35)
      .minZoom(0.05)
      .maxZoom(8)
      .linkCurvature((link) => link.curvature)
      .linkDirectionalArrowLength((link) => (link.edge.isFaded ? 0 : 5))
      .linkDirectionalArrowRelPos(0.86)
      .linkDirectionalArrowColor((link) => colourOfLink(link))
      .linkColor((link) => colourOfLink(link))
      .linkLineDash((link) => (link.edge.op === "delete" ? [2, 3] : link.edge.op === "update" ? [6, 3] : null))
      .linkWidth((link) => (link.edge.width ?? 1) * (link.edge.op ? 2 : 1))
      .onRenderFramePre(() => {
        began = performance.now();
        hasDiscs = false;
      })
      .onRenderFramePost((context, scale) => {
        drawLinkLabels(context, scale);
        frames.push(performance.now() - began);
        if (frames.length > 200) frames.shift();
      })
      .nodeCanvasObject((node, context, scale) => drawNode(node, context, scale))
      .nodePointerAreaPaint((node, colour, context) => {
        context.fillStyle = colour;
        context.beginPath();
        context.arc(node.x!, node.y!, radius(node) + 3, 0, 2 * Math.PI);
        context.fill();
      })
      .onNodeClick((node, event) => {
        if (event.detail > 1) state.current.onExpand?.(node.key);
        else state.current.onSelect(node.key);
      })
      .onNodeHover((node) => (state.current.hover = node?.key ?? ""))
      .onNodeDragEnd((node) => {
        node.fx = node.x;
        node.fy = node.y;
      })
      .onBackgroundClick(() => state.current.onSelect(""));
    graph.d3Force("charge")?.strength?.(-160);
    graph.d3Force("link")?.distance?.(64);
    // Parts that no edge joins stay near each other.
    graph.d3Force("gravity", ((alpha: number) => {
      for (const node of graph.graphData().nodes as (Drawn & { vx?: number; vy?: number })[]) {
        node.vx = (node.vx ?? 0) - (node.x ?? 0) * 0.06 * alpha;
        node.vy = (node.vy ?? 0) - (node.y ?? 0) * 0.06 * alpha;
      }
    }) as never);
    picture.current = graph;
    element.querySelectorAll("canvas").forEach((canvas) => canvas.setAttribute("aria-hidden", "true"));
    const own = {
      frames,
      positions: () => Object.fromEntries(graph.graphData().nodes.map((node) => {
        const { x, y } = graph.graph2ScreenCoords(node.x ?? 0, node.y ?? 0);
        return [node.key, [x, y] as [number, number]];
      })),
    };
    window.__studio = own;
    const sizes = new ResizeObserver(() => graph.width(element.clientWidth).height(element.clientHeight));
    sizes.observe(element);

    const isStrong = (node: Drawn) => node.op !== undefined || node.key === state.current.selected;
    function colourOfLink(link: Link): string {
      const paint = paintRef.current;
      const base = link.edge.op ? paint[link.edge.op] : paint.line;
      const isSelected = state.current.selected && (keyOf(link.source) === state.current.selected || keyOf(link.target) === state.current.selected);
      return isSelected ? paint.focus : link.edge.isFaded ? base + "55" : base;
    }
    /** Discs and rings of all nodes, a path for each look of them: a path for each node is what a frame would wait for. */
    function drawDiscs(context: CanvasRenderingContext2D) {
      const paint = paintRef.current;
      const discs = new Map<string, Drawn[]>();
      const rings = new Map<string, Drawn[]>();
      const put = (into: Map<string, Drawn[]>, look: string, node: Drawn) => (into.get(look) ?? into.set(look, []).get(look)!).push(node);
      for (const node of graph.graphData().nodes) {
        const alpha = node.isFaded && node.key !== state.current.selected ? "0.35" : "1";
        put(discs, `${alpha} ${node.type}`, node);
        if (node.op) put(rings, `${alpha} ${node.op}`, node);
      }
      const path = (look: string, nodes: Drawn[], gap: number) => {
        context.globalAlpha = parseFloat(look);
        context.beginPath();
        for (const node of nodes) {
          const size = radius(node) + gap;
          context.moveTo((node.x ?? 0) + size, node.y ?? 0);
          context.arc(node.x ?? 0, node.y ?? 0, size, 0, 2 * Math.PI);
        }
        return look.slice(look.indexOf(" ") + 1);
      };
      for (const [look, nodes] of discs) {
        context.fillStyle = paint.type(path(look, nodes, 0));
        context.fill();
      }
      context.lineWidth = 3;
      for (const [look, nodes] of rings) {
        const op = path(look, nodes, 3.5) as Op;
        context.strokeStyle = paint[op];
        context.setLineDash(op === "delete" ? [2, 3] : op === "update" ? [6, 3] : []);
        context.stroke();
      }
      context.setLineDash([]);
      context.globalAlpha = 1;
    }
    function drawNode(node: Drawn, context: CanvasRenderingContext2D, scale: number) {
      if (!hasDiscs) {
        drawDiscs(context);
        names = placeNames(context, scale);
        hasDiscs = true;
      }
      const paint = paintRef.current;
      const { x = 0, y = 0 } = node;
      const size = radius(node);
      const isSelected = node.key === state.current.selected;
      context.globalAlpha = node.isFaded && !isSelected ? 0.35 : 1;
      // A sign that is too small to read is not drawn; the line of the ring still tells the kind of change.
      if (node.op && scale > 0.4) {
        context.beginPath();
        context.arc(x + size, y - size, 6, 0, 2 * Math.PI);
        context.fillStyle = paint.panel;
        context.fill();
        context.fillStyle = paint[node.op];
        context.font = `700 11px ${paint.font}`;
        context.textAlign = "center";
        context.textBaseline = "middle";
        context.fillText(SIGNS[node.op], x + size, y - size + 0.5);
      }
      if (node.isPinned) {
        context.lineWidth = 1.5;
        context.strokeStyle = paint.text;
        context.strokeRect(x - size - 2, y - size - 2, 2 * size + 4, 2 * size + 4);
      }
      if (isSelected) {
        context.lineWidth = 2.5;
        context.strokeStyle = paint.focus;
        context.beginPath();
        context.arc(x, y, size + 7, 0, 2 * Math.PI);
        context.stroke();
      }
      const spot = names.get(node);
      if (spot) {
        const text = nameOf(node);
        context.font = `${isStrong(node) ? 600 : 400} ${11 / scale}px ${paint.font}`;
        context.textAlign = "center";
        context.textBaseline = "top";
        context.lineWidth = 3 / scale;
        context.strokeStyle = paint.panel;
        context.strokeText(text, ...spot);
        context.fillStyle = paint.text;
        context.fillText(text, ...spot);
      }
      context.globalAlpha = 1;
    }
    /** Whether a text of one line, on the screen, is free of names; then it is covered from now on. */
    function cover(x: number, y: number, half: number, isNeeded = false): boolean {
      if (!isNeeded && covered.some(([left, right, top]) => x - half < right && x + half > left && Math.abs(y - top) < 12)) return false;
      covered.push([x - half, x + half, y]);
      return true;
    }
    /** Names below their nodes, or else above: those that say most first, and none over another. */
    function placeNames(context: CanvasRenderingContext2D, scale: number): Map<Drawn, [number, number]> {
      const { nodes } = graph.graphData();
      const changed = nodes.reduce((sum, node) => sum + (node.op ? 1 : 0), 0);
      const rank = (node: Drawn) => (node.key === state.current.selected ? 0 : node.key === state.current.hover ? 1 : node.op && changed <= LABELS_MOST ? 2 : scale > 1.4 || (nodes.length <= LABELS_MOST && (!node.isFaded || scale > 0.9)) ? (node.isFaded ? 4 : 3) : 5);
      const [least, most] = [graph.screen2GraphCoords(0, 0), graph.screen2GraphCoords(graph.width(), graph.height())];
      const wanted = nodes.filter((node) => rank(node) < 5 && node.x! > least.x && node.x! < most.x && node.y! > least.y && node.y! < most.y).sort((one, other) => rank(one) - rank(other)).slice(0, NAMES_MOST);
      covered.length = 0;
      const spots = new Map<Drawn, [number, number]>();
      for (const node of wanted) {
        context.font = `${isStrong(node) ? 600 : 400} 11px ${paintRef.current.font}`;
        const half = context.measureText(nameOf(node)).width / 2;
        const gap = radius(node) + (node.op ? 6 : 3);
        const below = node.y! + gap;
        const above = node.y! - gap - 12 / scale;
        if (cover(node.x! * scale, below * scale, half)) spots.set(node, [node.x!, below]);
        else if (cover(node.x! * scale, above * scale, half, rank(node) < 2)) spots.set(node, [node.x!, above]);
      }
      return spots;
    }
    function drawLinkLabels(context: CanvasRenderingContext2D, scale: number) {
      const paint = paintRef.current;
      const font = 10 / Math.max(scale, 0.75);
      context.font = `${font}px ${paint.font}`;
      context.textAlign = "center";
      context.textBaseline = "middle";
      context.lineWidth = 3 / scale;
      const { links } = graph.graphData();
      const isFew = links.length <= 14 || scale > 2.2;
      if (links.length > 400 && scale <= 2.2) return;
      for (const link of links) {
        if (!isFew && !link.edge.op) continue;
        if (typeof link.source === "string" || typeof link.target === "string") continue;
        if (link.edge.isFaded && !link.edge.op) continue;
        const dx = (link.target.x ?? 0) - (link.source.x ?? 0);
        const dy = (link.target.y ?? 0) - (link.source.y ?? 0);
        if (Math.hypot(dx, dy) * scale < 48) continue;
        const x = (link.source.x ?? 0) + dx / 2 - (dy * link.curvature) / 2;
        const y = (link.source.y ?? 0) + dy / 2 + (dx * link.curvature) / 2;
        const text = (link.edge.op ? `${SIGNS[link.edge.op]} ` : "") + link.edge.label;
        if (!cover(x * scale, y * scale - 6, (context.measureText(text).width * scale) / 2)) continue;
        context.strokeStyle = paint.panel;
        context.strokeText(text, x, y);
        context.fillStyle = link.edge.op ? paint[link.edge.op] : paint.muted;
        context.fillText(text, x, y);
      }
    }
    return () => {
      sizes.disconnect();
      graph._destructor();
      if (window.__studio === own) delete window.__studio;
      picture.current = null;
    };
  }, []);

  const shape = nodes.map((node) => node.key).join("\u0001") + "\u0002" + edges.map((edge) => edge.key).join("\u0001");
  useEffect(() => {
    const graph = picture.current;
    if (!graph) return;
    const isCalm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const before = kept.current;
    const isNew = nodes.every((node) => !before.has(node.key));
    const next = new Map<string, Drawn>();
    for (const node of nodes) {
      const drawn = Object.assign(before.get(node.key) ?? ({ id: node.key } as Drawn), { op: undefined, isFaded: false, size: undefined, isPinned: undefined }, node);
      next.set(node.key, drawn);
    }
    // A node that joins begins at a neighbour that is there already, so that the picture grows instead of jumping.
    for (const edge of edges) {
      const [one, other] = [next.get(edge.source), next.get(edge.target)];
      if (one && other && one.x === undefined && other.x !== undefined) [one.x, one.y] = [other.x + 20, other.y! + 12];
      else if (one && other && other.x === undefined && one.x !== undefined) [other.x, other.y] = [one.x + 20, one.y! - 12];
    }
    kept.current = next;
    const pairs = new Map<string, number>();
    const links: Link[] = edges.filter((edge) => next.has(edge.source) && next.has(edge.target)).map((edge) => {
      const pair = [edge.source, edge.target].sort().join("\u0001");
      const number = pairs.get(pair) ?? 0;
      pairs.set(pair, number + 1);
      return { edge, source: edge.source, target: edge.target, curvature: edge.source === edge.target ? 0.6 + 0.2 * number : number * 0.18 };
    });
    const ticks = Math.max(12, Math.min(140, Math.floor(40_000 / Math.max(nodes.length, 1))));
    graph.warmupTicks(isCalm || isNew ? ticks : 0);
    graph.graphData({ nodes: [...next.values()], links });
    frame.current!.dataset.nodes = String(nodes.length);
    if (nodes.length && (isNew || doesFit)) {
      const fit = () => picture.current?.zoom() !== undefined && picture.current.zoomToFit(0, 60);
      setTimeout(() => {
        fit();
        // A picture of a few nodes needs no magnifying glass.
        if (picture.current && picture.current.zoom() > 1.6) picture.current.zoom(1.6, 0);
      }, 40);
    }
  }, [shape]);
  useEffect(() => {
    for (const node of nodes) {
      const drawn = kept.current.get(node.key);
      if (!drawn) continue;
      const wasPinned = drawn.isPinned;
      Object.assign(drawn, { op: undefined, isFaded: false, size: undefined, isPinned: undefined }, node);
      if (node.isPinned && drawn.x !== undefined) [drawn.fx, drawn.fy] = [drawn.x, drawn.y];
      else if (wasPinned) drawn.fx = drawn.fy = undefined;
    }
    // A setter makes the paused picture draw once more.
    picture.current?.nodeCanvasObject(picture.current.nodeCanvasObject());
  }, [selected, paint, JSON.stringify(nodes.map((node) => [node.op, node.isFaded, node.size, node.isPinned])), JSON.stringify(edges.map((edge) => [edge.op, edge.isFaded]))]);

  const zoom = (factor: number) => picture.current?.zoom(picture.current.zoom() * factor, 0);
  const keys = (event: KeyboardEvent) => {
    const graph = picture.current;
    if (!graph) return;
    const centre = graph.centerAt();
    const step = 60 / graph.zoom();
    if (event.key === "+" || event.key === "=") zoom(1.25);
    else if (event.key === "-") zoom(0.8);
    else if (event.key === "0") graph.zoomToFit(0, 60);
    else if (event.key === "ArrowLeft") graph.centerAt(centre.x - step, centre.y);
    else if (event.key === "ArrowRight") graph.centerAt(centre.x + step, centre.y);
    else if (event.key === "ArrowUp") graph.centerAt(centre.x, centre.y - step);
    else if (event.key === "ArrowDown") graph.centerAt(centre.x, centre.y + step);
    else return;
    event.preventDefault();
  };
  return (
    <div class="card picture">
      <div ref={frame} style={{ position: "absolute", inset: 0 }} role="application" aria-label={`${label}. The table has the same content. Plus, minus, 0 and arrows move the picture.`} tabIndex={0} onKeyDown={keys} />
      <div class="tools">
        <Button onClick={() => zoom(1.25)} label="Nearer">+</Button>
        <Button onClick={() => zoom(0.8)} label="Farther">−</Button>
        <Button onClick={() => picture.current?.zoomToFit(0, 60)}>Fit</Button>
        <Button onClick={() => frame.current?.querySelector("canvas")?.toBlob((blob) => blob && saveFile("picture.png", blob))}>PNG</Button>
        {tools}
      </div>
    </div>
  );
}

const keyOf = (end: Drawn | string): string => (typeof end === "string" ? end : end.key);
const nameOf = (node: Drawn): string => shown(node.label, 28);
const radius = (node: Drawn): number => node.size ?? 9;
