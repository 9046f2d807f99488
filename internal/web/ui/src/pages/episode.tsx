import { useState } from "preact/hooks";
import type { EpisodeDetail, Field, Ignored, ResolveDrift } from "../api";
import { counted } from "../parts/amount";
import { Empty, Loaded, Section } from "../parts/layout";
import { what } from "../parts/legs";
import { type Column, Table } from "../parts/table";
import { Time } from "../parts/time";
import { type Field as Asked, Verb, because, quoted } from "../parts/verb";
import { may } from "../login";
import { replayed, useAnswer } from "../stream";
import { Is, Status } from "../words";
import { type Action, Decisions, IgnoreVerb, actions } from "./drift";

// EpisodePage is one episode of drift: what was acknowledged last, is desired and is on the node,
// field by field, and what can be decided about it.
export function EpisodePage({ id }: { id: string }) {
  const episode = useAnswer("show-drift", { id });
  const decided = (useAnswer("list-resolutions").value?.items ?? []).filter((r) => r.episode === id);
  return (
    <>
      <h1>Drift {id}</h1>
      {episode.error?.status === 404
        ? <Empty>It is not open any more: the node has again what it should, or somebody decided. <a href="/drift">All drift</a></Empty>
        : <Loaded of={episode}>{(e) => <Open key={e.etag} e={e} />}</Loaded>}
      {decided.length > 0 && <Section title="What was decided"><Decisions list={decided} /></Section>}
    </>
  );
}

const differs = (f: Field) => !f.ignored && f.desired !== f.actual;

function Open({ e }: { e: EpisodeDetail }) {
  const [theirs, setTheirs] = useState<string[]>([]);
  const rules = useAnswer("list-ignored").value?.items ?? [];
  const table = e.table ?? [];
  const open = table.filter(differs);
  const same = table.filter((f) => !differs(f));
  const picks = e.drift === "mismatched" && (e.actions ?? []).includes("repush") && may("resolve-drift") && replayed.value === undefined;
  const kept = open.map((f) => f.field).filter((f) => theirs.includes(f));
  const pick = (field: string, their: boolean) => setTheirs(their ? [...theirs, field] : theirs.filter((f) => f !== field));
  const take: Column<Field> = {
    name: "Take", show: (f) => (
      <select aria-label={`Take of ${f.field}`} value={kept.includes(f.field) ? "theirs" : "ours"} onChange={(x) => pick(f.field, x.currentTarget.value === "theirs")}>
        <option value="ours">ours</option><option value="theirs">theirs</option>
      </select>
    ),
  };
  const ignore: Column<Field> = { name: "Ignore", show: (f) => <IgnoreVerb of={{ node: e.node, kind: e.kind, name: e.name ?? "", field: f.field }} />, narrow: true };
  const columns = [...sides, { name: "Verdict", show: (f: Field) => verdict(f, rules) }];
  return (
    <>
      <p class="why">
        <Is kind="drift" of={e.summary} /> {e.summary.reason} {e.name ? <a href={`/config/${e.kind}/${e.name}`}>{what(e)}</a> : what(e)} on <a href={`/nodes/${e.node}`}>{e.node}</a>, since <Time at={e.openedAt} />
      </p>
      {e.decided && <p>It is decided about, and under way.</p>}
      <Section title="Fields" aside={picks && open.length > 1 && <><button type="button" onClick={() => setTheirs([])}>All ours</button> <button type="button" onClick={() => setTheirs(open.map((f) => f.field))}>All theirs</button></>}>
        {open.length === 0 ? <Empty>No field differs.</Empty> : <Table label="Fields that differ" columns={[...columns, ...(picks ? [take] : []), ...(e.name ? [ignore] : [])]} rows={open} id={(f) => f.field} />}
        {same.length > 0 && (
          <details>
            <summary>Fields that are the same, or are ignored: {same.length}</summary>
            <Table label="Fields that are the same" columns={columns.map((c) => ({ ...c, show: (f: Field) => (f.ignored ? <span class="dim">{c.show(f)}</span> : c.show(f)) }))} rows={same} id={(f) => f.field} />
          </details>
        )}
      </Section>
      {!e.decided && may("resolve-drift") && replayed.value === undefined && <Decide e={e} open={open} kept={kept} />}
    </>
  );
}

const keyed = "hmac:"; // begins what stands for a secret, which never leaves its node

// side is a value of a field; of a secret nothing but whether it is set.
function side(f: Field, v: string | null) {
  if (v === null) return <span class="dim">not set</span>;
  return f.secret || v.startsWith(keyed) ? <span class="dim">a secret</span> : v;
}

const sides: Column<Field>[] = [
  { name: "Field", show: (f) => <code>{f.field}</code> },
  { name: "Acknowledged last", show: (f) => side(f, f.acknowledged), narrow: true },
  { name: "Desired", show: (f) => side(f, f.desired) },
  { name: "On the node", show: (f) => side(f, f.actual) },
];

const verdicts: Record<string, [string, string]> = {
  declared: ["changed", "we changed it"],
  "changed outside": ["drifted", "they changed it"],
  "changed on both sides": ["conflict", "both: conflict"],
};

// verdict is who changed a field.
function verdict(f: Field, rules: Ignored[]) {
  if (f.ignored) {
    const r = rules.find((x) => x.rule === f.rule);
    return r ? <>ignored by {r.actor}, {r.until ? <>until <Time at={r.until} /></> : "until it is ended"}: {r.reason}</> : "ignored: the device changes it by itself";
  }
  if (!differs(f)) return "the same";
  const [tone, text] = verdicts[f.cause ?? ""] ?? ["unknown", "differs"];
  return <Status kind="other" word={tone}>{text}</Status>;
}

// Decide has what can be decided, with what would be pushed.
function Decide({ e, open, kept }: { e: EpisodeDetail; open: Field[]; kept: string[] }) {
  const can = (a: Action) => (e.actions ?? []).includes(a);
  const all = kept.length > 0 && kept.length === open.length;
  const fields = all ? [] : kept;
  const mixed: Action = all && can("ingest") ? "ingest" : "repush";
  const body = (action: Action) => (g: Record<string, string>): ResolveDrift => ({ action, reason: g.reason, ...(e.etag ? { etag: e.etag } : {}), ...(action === "repush" && fields.length > 0 ? { fields } : {}), ...(g.as ? { as: g.as } : {}) });
  const line = (action: Action) => (g: Record<string, string>) => `steady drift resolve ${e.id} ${actions[action].flag}${action === "repush" ? fields.map((f) => ` --keep ${quoted(f)}`).join("") : ""}${g.as ? ` --as ${quoted(g.as)}` : ""}${because(g)}`;
  const named: Asked[] = e.name ? [] : [{ name: "as", label: "Name of what it becomes (empty: as the device calls it)" }];
  const verb = (action: Action) => (
    <Verb key={action} operation="resolve-drift" label={actions[action].label} parts={{ id: e.id }} what={action === "repush" && fields.length > 0 ? `What the server has is pushed, but for ${fields.join(", ")}.` : actions[action].what}
      danger={action.startsWith("delete")} fields={action === "ingest" ? named : []} body={body(action)} line={line(action)} />
  );
  return (
    <Section title="Decide">
      {(can("repush") || can("ingest")) && <Preview e={e} action={can(mixed) ? mixed : "ingest"} open={open} kept={fields} />}
      <div class="verbs" role="group" aria-label="Verbs">{(Object.keys(actions) as Action[]).filter((a) => can(a) && (a !== "repush" || !all)).map(verb)}</div>
    </Section>
  );
}

// Preview is the push that would result of what is taken.
function Preview({ e, action, open, kept }: { e: EpisodeDetail; action: Action; open: Field[]; kept: string[] }) {
  if (action === "ingest") return <p role="status"><b>Preview:</b> nothing is pushed to {e.node}; the server has {e.name ? "these fields as they are there" : "the object from then on"}.</p>;
  const pushed = open.filter((f) => !kept.includes(f.field));
  return (
    <div role="status">
      <p><b>Preview:</b> pushed to {e.node}: {pushed.length} of {counted(open.length, "field")} that differ{kept.length > 0 && <>; {kept.join(", ")} stay as they are there, and the server has them so</>}.</p>
      <Table label="What would be pushed" rows={pushed} id={(f) => f.field} columns={[
        { name: "Field", show: (f) => <code>{f.field}</code> },
        { name: "Now", show: (f) => side(f, f.actual) },
        { name: "Then", show: (f) => side(f, f.desired) },
      ]} />
    </div>
  );
}
