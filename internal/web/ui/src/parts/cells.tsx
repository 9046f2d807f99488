import { useEffect, useRef, useState } from "preact/hooks";
import type { Group, StateCount } from "../api";
import { go } from "../router";
import { type Tone, toneOf } from "../words";

// Drawn is the fleet as it is drawn: a letter of cells for each name.
export interface Drawn {
  names: string[];
  groups: Group[];
  cells: string;
  legend: StateCount[];
}

// Cells draws one cell for each host on a canvas: ten thousand elements would take the
// page's whole time. Each group of hosts begins a row.
export function Cells({ fleet }: { fleet: Drawn }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const [at, setAt] = useState(-1);
  useEffect(() => {
    const watch = new ResizeObserver(([e]) => setWidth(Math.floor(e!.contentRect.width)));
    watch.observe(canvas.current!.parentElement!);
    return () => watch.disconnect();
  }, []);
  const grid = layout(fleet.groups, width);
  useEffect(() => {
    if (width > 0) draw(canvas.current!, fleet, grid, width, at);
  }, [fleet.cells, fleet.groups, width, at]);
  const stateOf = (i: number) => fleet.legend.find((l) => l.code === fleet.cells[i])?.state ?? "";
  const under = (e: MouseEvent) => grid.at(e.offsetX, e.offsetY);
  const key = (e: KeyboardEvent) => {
    const last = fleet.names.length - 1;
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, ArrowDown: at + grid.columns, ArrowUp: at - grid.columns, Home: 0, End: last }[e.key];
    if (to !== undefined) {
      e.preventDefault();
      setAt(Math.max(0, Math.min(last, to)));
    } else if (e.key === "Enter" && at >= 0) go(`/hosts/${fleet.names[at]}`);
  };
  const said = fleet.legend.filter((l) => l.count > 0).map((l) => `${l.count} ${l.state}`).join(", ");
  return (
    <div class="cells">
      <canvas ref={canvas} tabIndex={0} role="application" aria-roledescription="map of hosts" aria-label={`${fleet.names.length} hosts: ${said}. Arrow keys move, Enter opens a host.`}
        onKeyDown={key} onMouseMove={(e) => setAt(under(e))} onMouseLeave={() => setAt(-1)} onClick={(e) => under(e) >= 0 && go(`/hosts/${fleet.names[under(e)]}`)} />
      <p class="cell" aria-live="polite">{at >= 0 && fleet.names[at] ? <>{fleet.names[at]}: {stateOf(at)}</> : <span class="dim">Point at a cell, or use the arrow keys.</span>}</p>
    </div>
  );
}

interface Grid {
  size: number; // of a cell, in CSS pixels
  columns: number;
  height: number;
  rows: number[]; // the first row of each group
  groups: Group[];
  at: (x: number, y: number) => number;
}

const gap = 6; // between groups

// margin is what the names of groups take, where there is room for them.
const margin = (width: number) => (width > 700 ? 150 : 0);

// layout finds the largest cells with which the fleet is at most 320 pixels high.
function layout(groups: Group[], whole: number): Grid {
  const left = margin(whole);
  const width = whole - left;
  let size = 18;
  let rows: number[] = [];
  let columns = 1;
  let all = 0;
  for (; size >= 3; size--) {
    columns = Math.max(1, Math.floor(width / size));
    rows = [];
    all = 0;
    for (const g of groups) {
      rows.push(all);
      all += Math.ceil(g.count / columns);
    }
    if (all * size + groups.length * gap <= 320) break;
  }
  size = Math.max(size, 3);
  const at = (x: number, y: number) => {
    for (let g = groups.length - 1; g >= 0; g--) {
      const top = rows[g]! * size + g * gap;
      if (y < top) continue;
      const i = Math.floor((y - top) / size) * columns + Math.floor((x - left) / size);
      return i < groups[g]!.count && x >= left && x < left + columns * size ? groups[g]!.first + i : -1;
    }
    return -1;
  };
  return { size, columns, height: all * size + Math.max(0, groups.length - 1) * gap, rows, groups, at };
}

function draw(canvas: HTMLCanvasElement, fleet: Drawn, grid: Grid, width: number, marked: number) {
  const ratio = devicePixelRatio || 1;
  canvas.width = width * ratio;
  canvas.height = Math.max(1, grid.height) * ratio;
  canvas.style.height = `${Math.max(1, grid.height)}px`;
  const c = canvas.getContext("2d")!;
  c.scale(ratio, ratio);
  const style = getComputedStyle(canvas);
  const colours = new Map(fleet.legend.map((l) => [l.code, { tone: toneOf(l.state), colour: style.getPropertyValue(`--${toneOf(l.state)}`) }]));
  const side = grid.size > 5 ? grid.size - 2 : grid.size - 1;
  const left = margin(width);
  c.font = `12px ${style.fontFamily}`;
  c.textBaseline = "top";
  grid.groups.forEach((g, n) => {
    c.fillStyle = style.color;
    if (left > 0) c.fillText(`${g.channel || "no channel"} ${g.wave}`, 0, grid.rows[n]! * grid.size + n * gap, left - 8);
    for (let i = 0; i < g.count; i++) {
      const x = left + (i % grid.columns) * grid.size;
      const y = (grid.rows[n]! + Math.floor(i / grid.columns)) * grid.size + n * gap;
      const cell = colours.get(fleet.cells[g.first + i]!);
      c.fillStyle = cell?.colour ?? style.color;
      shape(c, cell?.tone ?? "none", x, y, side);
      if (g.first + i === marked) {
        c.strokeStyle = style.color;
        c.lineWidth = 2;
        c.strokeRect(x - 1, y - 1, side + 2, side + 2);
      }
    }
  });
}

// shape tells states apart without colour: whole for what is well, hollow for what waits
// or is away, a triangle for a warning, a cross for a failure.
function shape(c: CanvasRenderingContext2D, tone: Tone, x: number, y: number, side: number) {
  c.beginPath();
  switch (tone) {
    case "wait":
    case "away":
      c.fillRect(x, y, side, 1);
      c.fillRect(x, y + side - 1, side, 1);
      c.fillRect(x, y, 1, side);
      c.fillRect(x + side - 1, y, 1, side);
      return;
    case "warn":
      c.moveTo(x + side / 2, y);
      c.lineTo(x + side, y + side);
      c.lineTo(x, y + side);
      c.fill();
      return;
    case "bad":
      c.lineWidth = Math.max(1.5, side / 4);
      c.strokeStyle = c.fillStyle;
      c.moveTo(x, y);
      c.lineTo(x + side, y + side);
      c.moveTo(x + side, y);
      c.lineTo(x, y + side);
      c.stroke();
      return;
    case "busy":
      c.fillRect(x, y + side / 2, side, side / 2);
      c.fillRect(x, y, side / 2, side / 2);
      return;
    default:
      c.fillRect(x, y, side, side);
  }
}
