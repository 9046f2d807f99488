import type { ComponentChildren } from "preact";
import { useAnswer } from "../stream";
import { counted } from "./amount";
import { span } from "./time";
import { Bar, Gauge, Loaded } from "./layout";

// Played follows a forecast or a rerun until it has found something. Of is what it counts.
export function Played<T>({ id, of, children }: { id: string; of: string; children: (found: T) => ComponentChildren }) {
  const f = useAnswer("get-forecast", { id });
  return (
    <Loaded of={f}>
      {(v) => v.state === "failed"
        ? <p role="alert" class="error">{v.error}</p>
        : v.state !== "done"
          ? <p aria-busy="true"><progress aria-label={`Played of the ${of}`} max={v.runs || 1} value={v.done} /> {v.state === "queued" ? "It waits for another to end." : `${v.done} of ${v.runs} ${of}`}</p>
          : children(v.found as T)}
    </Loaded>
  );
}

// What a forecast reports, in milliseconds from its beginning.
export interface Spread { runs: number; best: number; median: number; p95: number; worst: number }
export interface Report {
  hosts: number;
  runs: number;
  seed: number;
  finished: number;
  finish: Spread;
  rollouts: {
    name: string;
    hosts: number;
    waves: { name: string; hosts: number; reached: number; opens: Spread; passed: number; promoted: Spread; stopped: number }[];
    converged: number;
    reverted: number;
    halted: number;
    blocked: number;
    unopened: number;
    finish: Spread;
    affected: { runs: number; median: number; worst: number };
    reason?: string;
    obstacles?: { runs: number; host?: string; wave?: string; block?: { message: string } }[];
  }[];
  budgets: { selector: string; max: number; peak: number }[];
  peakInFlight: number;
}

// Forecast draws how a release would roll out: a band for each wave from the median of its
// opening to the slowest twentieth of its promotions.
export function Forecast({ report }: { report: Report }) {
  const end = Math.max(1, ...report.rollouts.flatMap((r) => [r.finish.p95, ...r.waves.map((w) => w.promoted.p95 || w.opens.p95)]), report.finish.p95);
  return (
    <>
      <p>
        {report.finished} of {counted(report.runs, "run")} came to an end{report.finished > 0 && <>: after {span(report.finish.median)} in the middle, {span(report.finish.p95)} in the slowest twentieth</>}.
        {" "}At most {report.peakInFlight} of {counted(report.hosts, "host")} changed at a time.
      </p>
      {report.rollouts.map((r) => (
        <div key={r.name} class="forecast">
          <h3>{r.name}: {counted(r.hosts, "host")}</h3>
          <Bar label={`Ends of ${r.name}`} parts={[
            { word: "converged", tone: "good", count: r.converged }, { word: "reverted", tone: "warn", count: r.reverted }, { word: "halted", tone: "bad", count: r.halted },
            { word: "blocked", tone: "wait", count: r.blocked }, { word: "never opened", tone: "away", count: r.unopened }]} />
          <p class="dim">
            Of {counted(report.runs, "run")} {r.converged} converged, {r.reverted} reverted, {r.halted} halted, {r.blocked} were blocked, {r.unopened} never opened.
            {r.affected.runs > 0 && <> Where it did not converge it touched {counted(r.affected.median, "host")} in the middle, {r.affected.worst} at worst.</>}
            {r.reason && <> {r.reason}</>}
          </p>
          <ol class="bands">
            {r.waves.map((w) => (
              <li key={w.name}>
                <span>{w.name}</span>
                <span class="band" role="img" aria-label={`${w.name}: opens after ${span(w.opens.median)}, is promoted after ${span(w.promoted.median)}, 95 % by ${span(w.promoted.p95)}`}>
                  <span class="median" style={{ left: `${(100 * w.opens.median) / end}%`, width: `${Math.max(0.5, (100 * (w.promoted.median - w.opens.median)) / end)}%` }} />
                  <span class="p95" style={{ left: `${(100 * w.promoted.median) / end}%`, width: `${Math.max(0, (100 * (w.promoted.p95 - w.promoted.median)) / end)}%` }} />
                </span>
                <span class="dim">{counted(w.hosts, "host")}, {w.reached < report.runs ? `reached in ${w.reached} of ${report.runs}, ` : ""}promoted after {span(w.promoted.median)}, 95 % by {span(w.promoted.p95)}</span>
              </li>
            ))}
          </ol>
          {(r.obstacles ?? []).length > 0 && (
            <>
              <p>What held it for good:</p>
              <ul>{r.obstacles!.map((o, i) => <li key={i}>{o.host ?? o.wave ?? ""} {o.block?.message ?? ""} <span class="dim">({o.runs} of {counted(report.runs, "run")})</span></li>)}</ul>
            </>
          )}
        </div>
      ))}
      {report.budgets.map((b) => <Gauge key={b.selector} label={`Budget ${b.selector} at its fullest`} used={b.peak} most={b.max} />)}
    </>
  );
}
