import { useState } from "preact/hooks";
import type { EpisodeRow, Ignored, Outcome, Resolution, ResolveMany } from "../api";
import { Choice, Part, paged } from "../parts/filters";
import { Empty, Loaded, Section } from "../parts/layout";
import { Outcomes, episodeColumns } from "../parts/legs";
import { type Column, Pager, Table } from "../parts/table";
import { Time } from "../parts/time";
import { Undo } from "../parts/undo";
import { Verb, because, quoted } from "../parts/verb";
import { call } from "../request";
import { parameter } from "../router";
import { may } from "../login";
import { replayed, useAnswer } from "../stream";
import { useKinds, wordsOf } from "../words";

export type Action = ResolveMany["action"];

// actions are the ways to decide, with the command line's flag and what comes of it.
export const actions: Record<Action, { label: string; flag: string; what: string }> = {
  repush: { label: "Repush", flag: "--repush", what: "What the server has is pushed; what is on the node goes." },
  ingest: { label: "Ingest", flag: "--ingest", what: "The server has it as the node has it; nothing on the node changes." },
  "delete-node": { label: "Delete on the node", flag: "--delete=node", what: "The node deletes it, and so does the server." },
  "delete-server": { label: "Delete on the server", flag: "--delete=server", what: "The server forgets it; the node stays as it is." },
};

const filters = ["node", "kind", "name", "drift"] as const;

// DriftPage lists what nodes have other than they should, decides about several at once, and has
// what was decided and what is ignored.
export function DriftPage() {
  const asked = Object.fromEntries(filters.map((f) => [f, parameter(f)])) as Record<(typeof filters)[number], string>;
  return (
    <>
      <h1>Drift</h1>
      <form class="filters" role="search" onSubmit={(e) => e.preventDefault()}>
        <Part name="node" label="Node" />
        <Choice name="kind" label="Kind" values={useKinds().all.map((k) => k.name)} />
        <Part name="name" label="Object" />
        <Choice name="drift" label="Drift" values={wordsOf("drift").filter((w) => w !== "conflict")} />
      </form>
      <Several key={JSON.stringify(asked)} asked={asked} />
      <Section title="What was decided"><Loaded of={useAnswer("list-resolutions")}>{(r) => <Decisions list={r.items ?? []} />}</Loaded></Section>
      <Section title="What is ignored" aside={<IgnoreVerb of={{ node: asked.node, kind: asked.kind, name: asked.name }} />}><Loaded of={useAnswer("list-ignored")}>{(r) => <Rules list={r.items ?? []} />}</Loaded></Section>
    </>
  );
}

// Several lists a page of episodes and decides about those chosen on any page, or all that the
// filters leave.
function Several({ asked }: { asked: Record<string, string> }) {
  const page = useAnswer("page-drift", {}, paged(...filters));
  const [ids, choose] = useState<string[]>([]);
  const [action, setAction] = useState<Action>("ingest");
  const [dry, setDry] = useState<Outcome[]>();
  const [came, setCame] = useState<Outcome[]>();
  const [error, setError] = useState("");
  const deciding = may("resolve-many") && replayed.value === undefined;
  const toggle = (id: string) => choose(ids.includes(id) ? ids.filter((c) => c !== id) : [...ids, id]);
  const send = (dryRun: boolean, reason?: string) => call("resolve-many", {}, { ...asked, episodes: ids, action, dryRun, reason } satisfies ResolveMany).then((o) => o ?? []);
  const preview = () => {
    setError("");
    send(true).then(setDry, (e: Error) => setError(e.message));
  };
  const line = (g: Record<string, string>) => `steady drift resolve ${ids.length > 0 ? ids.join(" ") : ["--all", ...filters.filter((f) => asked[f]).map((f) => `--${f} ${asked[f]}`)].join(" ")} ${actions[action].flag}${because(g)}`;
  const said = `${ids.length > 0 ? ids.length : `all ${page.value?.total ?? ""}`}`;
  const box: Column<EpisodeRow> = { name: "Choose", show: (e) => <input type="checkbox" aria-label={`Choose ${e.id}`} checked={ids.includes(e.id)} onInput={() => toggle(e.id)} /> };
  return (
    <>
      <Loaded of={page}>
        {(p) => p.total === 0
          ? <Empty>No drift is like that.</Empty>
          : <><Table label="Episodes" columns={deciding ? [...episodeColumns, box] : episodeColumns} rows={p.items ?? []} id={(e) => e.id} /><Pager {...p} /></>}
      </Loaded>
      {deciding && page.value?.total !== 0 && (
        <div class="filters" role="group" aria-label="Decide about several">
          <label>What to do <select value={action} onChange={(e) => { setAction(e.currentTarget.value as Action); setDry(undefined); }}>
            {Object.entries(actions).map(([a, { label }]) => <option key={a} value={a}>{label}</option>)}
          </select></label>
          <span>with {said}{ids.length === 0 && " that the filters leave"}</span>
          <button type="button" onClick={preview}>Preview</button>
          <Verb operation="resolve-many" label="Resolve" what={`${actions[action].what} This is decided about ${said}, each by itself.`} danger={action.startsWith("delete")} send={async (g) => { setCame(await send(false, g.reason)); setDry(undefined); choose([]); }} line={line} />
        </div>
      )}
      {error && <p role="alert" class="error">{error}</p>}
      {dry && <Outcomes list={dry} dry />}
      {came && <Outcomes list={came} />}
    </>
  );
}

const objectOf = (r: Resolution) => [["flow", r.flow_id], ["tunnel", r.tunnel_id], ["document", r.document_id], [r.kind, r.object_id]].find(([, n]) => n)?.join(" ") ?? r.id;

// Decisions lists what was decided about drift, each with its undo.
export function Decisions({ list }: { list: Resolution[] }) {
  if (list.length === 0) return <Empty>Nothing yet.</Empty>;
  return (
    <Table label="Decisions" rows={list} id={(r) => r.resolution} columns={[
      { name: "Decision", show: (r) => r.resolution },
      { name: "At", show: (r) => <Time at={r.at} /> },
      { name: "What", show: (r) => <>{actions[r.action as Action]?.label ?? r.action}: {objectOf(r)} on <a href={`/nodes/${r.node_id}`}>{r.node_id}</a>{(r.fields ?? []).length > 0 && `, but for ${r.fields!.join(", ")}`}</> },
      { name: "By", show: (r) => r.actor, narrow: true },
      { name: "Reason", show: (r) => r.reason, narrow: true },
      { name: "Undo", show: (r) => (r.undone ? "undone" : <Undo id={r.resolution} />) },
    ]} />
  );
}

function Rules({ list }: { list: Ignored[] }) {
  if (list.length === 0) return <Empty>Nothing. What a device changes by itself, its driver ignores.</Empty>;
  return (
    <Table label="Ignored" rows={list} id={(r) => r.rule} columns={[
      { name: "Rule", show: (r) => r.rule },
      { name: "What", show: (r) => scopeOf(r) },
      { name: "Until", show: (r) => (r.until ? <Time at={r.until} /> : "it is ended") },
      { name: "By", show: (r) => <>{r.actor}: {r.reason}</> },
      { name: "End", show: (r) => <Verb operation="unignore-drift" label="Unignore" parts={{ id: r.rule }} noReason what="What it ignores is drift again." line={() => `steady drift unignore ${r.rule}`} /> },
    ]} />
  );
}

const scopeOf = (r: Ignored) => [["field", r.field], ["kind", r.kind], ["object", r.name], ["node", r.node_id]].filter(([, v]) => v).map((p) => p.join(" ")).join(", ");

// IgnoreVerb has a field, or whole objects, be no drift for a while.
export function IgnoreVerb({ of }: { of: { node?: string; kind?: string; name?: string; field?: string } }) {
  const scope = (g: Record<string, string>) => Object.fromEntries((["node", "kind", "name", "field"] as const).map((f): [string, string] => [f, g[f] ?? ""]).filter(([, v]) => v));
  const kinds = useKinds();
  const text = (name: "node" | "name" | "field", label: string) => ({ name, label, value: of[name] ?? "" });
  return (
    <Verb operation="ignore-drift" label="Ignore" parts={of.field ? { field: of.field } : {}} what="It is not compared and not pushed: it stays as the node has it. Without a field, whole objects that the server does not know are ignored."
      fields={[text("node", "On this node alone"), { name: "kind", label: "Kind", type: "select", options: ["", ...kinds.all.map((k) => k.name)], value: of.kind ?? "" }, text("name", "Of this object alone"), text("field", "Field, * is any one step"), { name: "hours", label: "For so many hours (empty: until it is ended)", type: "number" }]}
      body={(g) => ({ ...scope(g), reason: g.reason, ...(g.hours ? { until: Date.now() + Math.round(Number(g.hours) * 3_600_000) } : {}) })}
      line={(g) => `steady drift ignore ${Object.entries(scope(g)).map(([k, v]) => `--${k} ${quoted(v)}`).join(" ")}${g.hours ? ` --for ${g.hours}h` : ""}${because(g)}`} />
  );
}
