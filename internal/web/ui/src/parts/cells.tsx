import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Group, StateCount } from "../api";
import { go } from "../router";
import { type Tone, toneOf } from "../words";
import { counted } from "./amount";

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
  const grid = useMemo(() => layout(fleet.groups, width), [fleet.groups, width]);
  const drawn = useRef<Picture | undefined>(undefined);
  useEffect(() => {
    if (width > 0) drawn.current = draw(canvas.current!, fleet, grid, at, drawn.current);
  }, [fleet.cells, grid, at]);
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
      <canvas ref={canvas} tabIndex={0} role="application" aria-roledescription="map of hosts" aria-label={`${counted(fleet.names.length, "host")}: ${said}. Arrow keys move, Enter opens a host.`}
        onKeyDown={key} onMouseMove={(e) => setAt(under(e))} onMouseLeave={() => setAt(-1)} onClick={(e) => under(e) >= 0 && go(`/hosts/${fleet.names[under(e)]}`)} />
      <p class="cell" aria-live="polite">{at >= 0 && fleet.names[at] ? <>{fleet.names[at]}: {stateOf(at)}</> : <span class="dim">Point at a cell, or use the arrow keys.</span>}</p>
    </div>
  );
}

interface Grid {
  size: number; // of a cell, in CSS pixels
  side: number; // of what is drawn in it
  left: number; // of the first column, behind the names of groups
  width: number;
  columns: number;
  height: number;
  rows: number[]; // the first row of each group
  groups: Group[];
  at: (x: number, y: number) => number;
}

// Picture is what a canvas shows: where nothing but cells changed, only those are drawn again.
interface Picture {
  grid: Grid;
  cells: string;
  marked: number;
  look: string; // colours, font and pixel ratio
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
  const side = size > 5 ? size - 2 : size - 1;
  return { size, side, left, width: whole, columns, height: Math.max(1, all * size + Math.max(0, groups.length - 1) * gap), rows, groups, at };
}

function draw(canvas: HTMLCanvasElement, fleet: Drawn, grid: Grid, marked: number, was?: Picture): Picture {
  const ratio = devicePixelRatio || 1;
  const style = getComputedStyle(canvas);
  const colours = new Map(fleet.legend.map((l) => [l.code, { tone: toneOf(l.state), colour: style.getPropertyValue(`--${toneOf(l.state)}`) }]));
  const look = JSON.stringify([ratio, style.color, style.fontFamily, ...colours]);
  const cellsOnly = was?.grid === grid && was.look === look && was.marked < 0 && marked < 0;
  const c = canvas.getContext("2d")!;
  if (!cellsOnly) {
    canvas.width = grid.width * ratio;
    canvas.height = grid.height * ratio;
    canvas.style.height = `${grid.height}px`;
    c.scale(ratio, ratio);
    c.font = `12px ${style.fontFamily}`;
    c.textBaseline = "top";
  }
  grid.groups.forEach((g, n) => {
    const top = grid.rows[n]! * grid.size + n * gap;
    c.fillStyle = style.color;
    if (grid.left > 0 && !cellsOnly) c.fillText(`${g.channel || "no channel"} ${g.wave}`, 0, top, grid.left - 8);
    for (let i = 0; i < g.count; i++) {
      const code = fleet.cells[g.first + i]!;
      if (cellsOnly && code === was.cells[g.first + i]) continue;
      const x = grid.left + (i % grid.columns) * grid.size;
      const y = top + Math.floor(i / grid.columns) * grid.size;
      if (cellsOnly) c.clearRect(x - 1, y - 1, grid.side + 2, grid.side + 2);
      const cell = colours.get(code);
      c.fillStyle = cell?.colour ?? style.color;
      shape(c, cell?.tone ?? "none", x, y, grid.side);
      if (g.first + i === marked) {
        c.strokeStyle = style.color;
        c.lineWidth = 2;
        c.strokeRect(x - 1, y - 1, grid.side + 2, grid.side + 2);
      }
    }
  });
  return { grid, cells: fleet.cells, marked, look };
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
