import type { ComponentChildren } from "preact";
import { replay } from "../stream";
import { Status } from "../words";
import { counted } from "./amount";
import { Empty } from "./layout";
import { Table } from "./table";
import { absolute } from "./time";

// What steady replay -o json says of a rerun, as far as it is shown.
interface Course { name: string; manifest: string; status: string; reason?: string; wave?: string; members?: Record<string, number>; tried?: number; failed?: number }
export interface Found {
  divergence?: { at: number; seq: number };
  firstRecorded: string[];
  firstNew: string[];
  recorded: { rollouts: Course[] };
  end: { rollouts: Course[] };
  differences: { what: string; before: string; after: string }[];
  recordedAt: number;
  endedAt: number;
  rest: boolean;
  followed: number;
  modelled: { host: string; at: number; why: string }[];
  unfit: number;
  unfitExample?: string;
}

const few = 8; // lines of a list before the rest is counted

const key = (c: Course) => `${c.name} ${c.manifest}`;

// said is what is shown of where a rollout stands.
const said = (c?: Course) => c && JSON.stringify([c.status, c.wave, c.reason, count(c)]);
const count = (c: Course) =>
  `Hosts touched ${c.tried ?? 0}, converged ${c.members?.converged ?? 0}, failed ${c.failed ?? 0}${c.members?.ahead ? `, ${c.members.ahead} went on to a later rollout` : ""}`;

// Compared has what would have happened beside what did.
export function Compared({ found: f, record }: { found: Found; record: number }) {
  const then = new Map(f.end.rollouts.map((c) => [key(c), c]));
  const was = new Map(f.recorded.rollouts.map((c) => [key(c), c]));
  const rows = [...new Set([...then.keys(), ...was.keys()])].map((k) => ({ id: k, was: was.get(k), then: then.get(k) }));
  const other = rows.filter((r) => said(r.was) !== said(r.then));
  const hosts = f.differences.filter((d) => d.what.startsWith("host "));
  return (
    <div role="group" aria-label="What would have happened">
      <p role="status">
        {f.divergence
          ? <>The first other decision is at {absolute(f.divergence.at)}, {f.divergence.seq ? <button type="button" onClick={() => replay(f.divergence!.seq)}>record {f.divergence.seq}</button> : "when the log has ended"}.</>
          : <>Every decision would have been the same, up to record {record}.</>}
      </p>
      {f.divergence && (
        <dl class="sides">
          <div><dt>What happened there</dt><Lines of={f.firstRecorded} /></div>
          <div><dt>What would have happened</dt><Lines of={f.firstNew} /></div>
        </dl>
      )}
      {other.length === 0 ? <Empty>Every rollout would have ended the same.</Empty> : (
        <Table label="Rollouts, as they went and as they would have gone" rows={other.slice(0, few)} id={(r) => r.id} columns={[
          { name: "Rollout", show: (r) => (r.was ?? r.then)!.name },
          { name: "What happened", show: (r) => <End of={r.was} /> },
          { name: "What would have happened", show: (r) => <End of={r.then} /> },
        ]} />
      )}
      <p class="dim">
        The same on both sides: {counted(rows.length - other.length, "rollout")}{other.length > few ? `, and ${other.length - few} more differ` : ""}.
        The log, up to record {record}, ends at {absolute(f.recordedAt)}; {f.rest ? "this comes to rest at" : "this is not at rest a day later, at"} {absolute(f.endedAt)}.
      </p>
      {hosts.length > 0 && (
        <details>
          <summary>With another end: {counted(hosts.length, "host")}</summary>
          <ul>{hosts.slice(0, 10 * few).map((d) => <li key={d.what}><b>{d.what.slice(5)}</b>: {d.before || "nothing"}; otherwise {d.after || "nothing"}</li>)}</ul>
        </details>
      )}
      <details>
        <summary>As recorded: {counted(f.followed, "host")}; modelled: {f.modelled.length}</summary>
        <ul>
          {f.modelled.slice(0, 10 * few).map((m) => <li key={m.host}><b>{m.host}</b> from {absolute(m.at)}: {m.why}</li>)}
          {f.unfit > 0 && <li>{f.unfit} recorded events did not apply, for example {f.unfitExample}</li>}
        </ul>
      </details>
    </div>
  );
}

function Lines({ of }: { of: string[] }) {
  const list: ComponentChildren[] = of.slice(0, few).map((text, i) => <dd key={i}>{text}</dd>);
  if (of.length > few) list.push(<dd key="more" class="dim">and {of.length - few} more</dd>);
  return <>{list.length > 0 ? list : <dd class="dim">nothing</dd>}</>;
}

// End is where a rollout stands at the end of a course of events.
function End({ of: c }: { of?: Course }) {
  if (!c) return <span class="dim">none</span>;
  return (
    <>
      <Status kind="rollouts" word={c.status} />{c.wave && ` at wave ${c.wave}`}
      <br />{count(c)}
      {c.reason && <><br /><span class="dim">{c.reason}</span></>}
    </>
  );
}
