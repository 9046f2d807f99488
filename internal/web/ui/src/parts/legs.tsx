import type { EpisodeRow, LegRow, Outcome, Wait } from "../api";
import { Is, Status, commandOf } from "../words";
import { counted } from "./amount";
import { Command, Empty } from "./layout";
import { type Column, Table } from "./table";
import { Time } from "./time";
import { Undo } from "./undo";

// Do is what somebody can do next: a command, or words.
export const Do = ({ next }: { next: string }) => (next.startsWith("steady ") ? <Command line={next} /> : <>{next}</>);

// Waits is what a leg waits for, and what clears that.
export function Waits({ wait }: { wait: Wait | undefined }) {
  if (!wait) return null;
  return <div>{wait.message}{wait.until ? <>, <Time at={wait.until} /></> : null}{wait.next && <>. Next: <Do next={wait.next} /></>}</div>;
}

// pushing says what a push of legs comes to now; nothing where none of them waits for one.
export function pushing(legs: LegRow[] | null): string | undefined {
  const open = (legs ?? []).filter((l) => (l.status === "pending" || l.status === "failed") && l.wait?.code !== "in-bin");
  if (open.length === 0) return undefined;
  const later = open.filter((l) => !["retry", "turn"].includes(l.wait?.code ?? ""));
  const now = open.length - later.length;
  const why = [...new Set(later.map((l) => l.wait?.message ?? "it is on its way"))].slice(0, 5);
  return [now > 0 && `${counted(now, "push", "pushes")} at once, and not when next due.`, later.length > 0 && `What waits goes on waiting: ${why.join("; ")}.`].filter(Boolean).join(" ");
}

// Push is how far a leg is pushed, with its drift.
export function Push({ leg }: { leg: LegRow }) {
  return (
    <>
      <Is kind={leg.drift ? "drift" : "legs"} of={leg.summary} />{leg.removed && " being deleted"}
      {leg.episode && <> <a href={`/drift/${leg.episode}`}>{leg.episode}</a></>}
    </>
  );
}

// Detail is what there is to say about a leg.
export function Detail({ leg }: { leg: LegRow }) {
  return (
    <>
      {leg.error && <div class="error">{leg.error}{leg.attempts ? <span class="dim"> (attempt {leg.attempts}, since <Time at={leg.failedSince} />)</span> : null}</div>}
      <Waits wait={leg.wait} />
      {leg.effect && !leg.drift && <div><Status kind="other" word={leg.effect} /> {leg.detail}</div>}
    </>
  );
}

const columns: Column<LegRow>[] = [
  { name: "Push", show: (l) => <Push leg={l} /> },
  { name: "Acknowledged", show: (l) => (l.pushedAt ? <>version {l.version}, <Time at={l.pushedAt} /></> : ""), narrow: true },
  { name: "Detail", show: (l) => <Detail leg={l} /> },
];
const role = (l: LegRow) => (l.role === l.kind ? "" : l.role);

// LegTable lists the legs of a node, or of an object.
export function LegTable({ legs, of }: { legs: LegRow[]; of: "node" | "object" }) {
  const first: Column<LegRow> = of === "object"
    ? { name: "Node", show: (l) => <>{role(l)} <a href={`/nodes/${l.node}`}>{l.node}</a></> }
    : { name: "Object", show: (l) => (l.name ? <><a href={`/config/${l.kind}/${l.name}`}>{l.kind} {l.name}</a> {role(l)}</> : <>{l.kind} {l.id}</>) };
  return <Table label="Pushes" columns={[first, { name: "On the device", show: (l) => l.id, narrow: true }, ...columns]} rows={legs} id={(l) => `${l.kind}/${l.id}/${l.node}`} />;
}

// what is the object of an episode as a person says it.
export const what = (e: EpisodeRow) => `${e.kind} ${e.name || e.objectId}${e.role && e.role !== e.kind ? ` ${e.role}` : ""}`;

export const episodeColumns: Column<EpisodeRow>[] = [
  { name: "Episode", show: (e) => <a href={`/drift/${e.id}`}>{e.id}</a> },
  { name: "Drift", show: (e) => <Is kind="drift" of={e.summary} /> },
  { name: "Object", show: (e) => (e.name ? <a href={`/config/${e.kind}/${e.name}`}>{what(e)}</a> : what(e)) },
  { name: "Node", show: (e) => <a href={`/nodes/${e.node}`}>{e.node}</a> },
  { name: "Since", show: (e) => <Time at={e.openedAt} />, narrow: true },
  { name: "Next", show: (e) => <>{e.summary.reason}{(e.summary.next ?? []).map((r) => <Command key={r.verb} line={commandOf(r)} />)}</>, narrow: true },
];

// Episodes lists episodes of drift.
export const Episodes = ({ list }: { list: EpisodeRow[] }) => (list.length === 0 ? <Empty>No drift.</Empty> : <Table label="Drift" columns={episodeColumns} rows={list} id={(e) => e.id} />);

// Outcomes is what came of decisions, each with its undo; of a dry run, what would come.
export function Outcomes({ list, dry }: { list: Outcome[]; dry?: boolean }) {
  if (list.length === 0) return <Empty>Nothing to decide about.</Empty>;
  const result = (o: Outcome) => {
    if (o.error) return <span class="error">{o.error}</span>;
    return dry ? "would be decided" : <>decided <Undo id={o.resolution!} /></>;
  };
  return (
    <div role="status">
      <Table label={dry ? "What would be decided" : "What was decided"} rows={list} id={(o) => o.episode || o.resolution || o.what} columns={[
        { name: "Episode", show: (o) => o.episode || o.resolution },
        { name: "What", show: (o) => o.what },
        { name: "Outcome", show: result },
      ]} />
    </div>
  );
}
