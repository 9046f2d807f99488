import { useState } from "preact/hooks";
import type { HostDetail, HostResources, Resource } from "../api";
import { Events } from "../parts/events";
import { Tags } from "../parts/hosts";
import { Steps } from "../parts/inbox";
import { WhyHost } from "../parts/ladder";
import { Command, Empty, Loaded, Section } from "../parts/layout";
import { Metrics } from "../parts/metrics";
import { type Column, Table } from "../parts/table";
import { Time } from "../parts/time";
import { Verb, because } from "../parts/verb";
import { Output, Stream } from "../parts/output";
import { pathOf } from "../request";
import { may } from "../login";
import { replayed, useAnswer } from "../stream";
import { Is, Status } from "../words";

// HostPage is one host: where it stands, why, what it runs, and what can be done about it.
export function HostPage({ rest }: { rest: string[] }) {
  const name = rest[0]!;
  const host = useAnswer("show-host", { host: name });
  const resources = useAnswer("list-resources", { host: name });
  return (
    <>
      <h1>Host {name}</h1>
      <Loaded of={host}>
        {(h) => (
          <>
            <Strip h={h} />
            <HostVerbs h={h} settings={resources.value} />
            <Section title="Why"><WhyHost answer={h.why} /></Section>
          </>
        )}
      </Loaded>
      <Section title="Resources">
        <Loaded of={resources}>{(r) => <Resources host={name} r={r} />}</Loaded>
      </Section>
      {(resources.value?.delegation?.allow ?? []).includes("prune") && <Section title="Left over"><LeftOver host={name} /></Section>}
      {(host.value?.probes ?? []).length > 0 && <Section title="Probes"><Probes h={host.value!} /></Section>}
      <Section title="Measured"><Metrics host={name} /></Section>
      <Section title="Timeline" aside={<a href={`/log?about=${encodeURIComponent(`host/${name}`)}`}>All of it</a>}>
        <Events about={`host/${name}`} limit={30} />
      </Section>
      {host.value && <Section title="Identity"><Identity h={host.value} /></Section>}
      {resources.value && <Section title="Settings"><Settings r={resources.value} /></Section>}
    </>
  );
}

// phases are the stations of a host on its way to its target, in order.
const phases = ["pending", "preparing", "prepared", "activating", "soaking", "converged"];

// stationOf is how far a host is on its way to its target: what it has of an earlier one is no part of that.
function stationOf(h: HostDetail): number {
  const there = h.current !== "" && h.current === (h.why.target || h.target);
  if (h.phase === "converged") return phases.indexOf(there ? "converged" : "pending");
  return phases.indexOf(h.phase);
}

function Strip({ h }: { h: HostDetail }) {
  const at = stationOf(h);
  const target = h.why.target || h.target;
  return (
    <>
      <p class="why">
        <Is kind="hosts" of={h.summary} /> {h.summary.reason} {h.summary.since ? <span class="dim">since <Time at={h.summary.since} /></span> : null}
      </p>
      {(h.summary.next ?? []).length > 0 && <div class="verbs" role="group" aria-label="What helps"><Steps of={h.summary.next} /></div>}
      <ol class="strip" aria-label={`On its way to its target: ${phases[at] ?? h.summary.word}`}>
        {phases.map((p, i) => <li key={p} class={i < at ? "done" : i === at ? "here" : ""} aria-current={i === at ? "step" : undefined}>{p}</li>)}
      </ol>
      <dl class="facts">
        <dt>Release</dt><dd>{h.runs ?? "nothing that the log knows"}</dd>
        <dt>Bundle</dt><dd class="mono">{h.current || "nothing yet"}</dd>
        <dt>Target</dt><dd class="mono">{target === h.current ? "the same" : target || "none"}</dd>
        {h.behind && <><dt>Behind</dt><dd>{h.behind.reason}; since <Time at={h.behind.since} /></dd></>}
        <dt>Rollout</dt><dd>{h.rollout ? <a href={`/rollouts/${h.rollout}`}>{h.rollout}</a> : "none"}</dd>
        <dt>Channel</dt><dd>{h.channel} <Tags of={h} /></dd>
        <dt>Presence</dt><dd><Status kind="presences" word={h.presence} /></dd>
        <dt>Last seen</dt><dd><Time at={h.lastSeen} /></dd>
        {h.frozenUntil ? <><dt>Frozen</dt><dd>ends <Time at={h.frozenUntil} />: {h.frozenWhy}</dd></> : null}
      </dl>
    </>
  );
}

function HostVerbs({ h, settings }: { h: HostDetail; settings: HostResources | undefined }) {
  if (replayed.value !== undefined) return null;
  const parts = { host: h.name };
  const line = (verb: string) => (given: Record<string, string>) => `steady host ${verb} ${h.name}${because(given)}`;
  const off = settings?.settings.enabled === false;
  return (
    <div class="verbs" role="group" aria-label="Verbs">
      {h.frozenUntil
        ? <Verb operation="unfreeze-host" label="Unfreeze" parts={parts} line={line("unfreeze")} />
        : <Verb operation="freeze-host" label="Freeze" parts={parts} what="The host is given no grants for a while."
            fields={[{ name: "hours", label: "Hours", type: "number", value: "2", required: true }]}
            body={(g) => ({ for: Math.round(Number(g.hours) * 3_600_000), reason: g.reason })}
            line={(g) => `steady host freeze ${h.name} --for ${g.hours}h${because(g)}`} />}
      <Verb operation="retry-host" label="Retry" parts={parts} what="The host begins anew with what it gave up." line={line("retry")} />
      {(settings?.delegation?.allow ?? []).includes("disable") && <Verb operation="tune-host" label={off ? "Enable" : "Disable"} parts={parts} danger={!off} what={off ? "Its workspaces start again." : "All of its workspaces stop until it is enabled again."}
        body={(g) => ({ enabled: off, reason: g.reason })} line={line(off ? "enable" : "disable")} />}
      {h.incarnation > 0 && <Verb operation="revoke-host" label="Revoke" parts={parts} danger what="Its certificates end at once; it does nothing until it enrols again." line={line("revoke")} />}
      <Verb operation="decommission-host" label="Decommission" parts={parts} danger what="It is revoked and retired for good." line={line("decommission")} />
      <details class="signed">
        <summary>Remove…</summary>
        <p>What becomes of what it runs is signed where the keys are:</p>
        <Command line={`steady host remove ${h.name} --workloads stop --reason '…'`} />
      </details>
    </div>
  );
}

function Resources({ host, r }: { host: string; r: HostResources }) {
  const [shown, show] = useState("");
  const columns: Column<Resource>[] = [
    { name: "Resource", show: (x) => x.layer === "managed" || ["workspace", "image"].includes(x.kind) ? <a href={`/workspaces/${host}/${x.kind}/${x.name}`}>{x.kind}/{x.name}</a> : <>{x.kind}/{x.name}</> },
    { name: "State", show: (x) => <Status kind="resources" word={x.state || x.phase || "unknown"} /> },
    { name: "Says", show: (x) => <>{x.message} {x.nextAttempt ? <>again <Time at={x.nextAttempt} />, attempt {x.attempts}</> : null}</> },
    { name: "Layer", show: (x) => (x.declared ? x.layer : x.next ? "next bundle" : "left over"), narrow: true },
    { name: "Drift", show: (x) => (x.differences ?? []).length > 0
      ? <details><summary>{x.differences!.length} differ</summary><ul>{x.differences!.map((d) => <li key={d.field}><code>{d.field}</code>: declared {d.desired ?? "nothing"}, found {d.observed ?? "nothing"} {d.why}</li>)}</ul></details>
      : "" },
    { name: "Output", show: (x) => ["workspace", "image"].includes(x.kind)
      ? <button type="button" aria-expanded={shown === `${x.kind}/${x.name}`} onClick={() => show(shown === `${x.kind}/${x.name}` ? "" : `${x.kind}/${x.name}`)}>{x.kind === "image" ? "Output" : "Logs"}</button>
      : "" },
  ];
  const [kind, name] = shown.split("/") as [string, string | undefined];
  if ((r.resources ?? []).length === 0) return <Empty>The host has reported none, and none is declared.</Empty>;
  return (
    <>
      <Table label="Resources" columns={columns} rows={r.resources!} id={(x) => `${x.kind}/${x.name}`} />
      {name && <Output host={host} kind={kind} name={name} />}
    </>
  );
}

// LeftOver is what carries the host's labels and nobody declares.
function LeftOver({ host }: { host: string }) {
  const [does, setDoes] = useState<"" | "list" | "prune">("");
  if (!may("host-prune")) return <Empty>An operator may list and remove it.</Empty>;
  return (
    <>
      <div class="verbs">
        <button type="button" onClick={() => setDoes("list")}>List</button>
        {does !== "" && <button type="button" class="danger" onClick={() => setDoes("prune")}>Prune</button>}
        <Command line={`steady host prune ${host} --dry-run`} />
      </div>
      {does === "list" && <Stream label="what nobody declares" path={pathOf("host-orphans", { host })} />}
      {does === "prune" && <Stream label="what is removed" path={pathOf("host-prune", { host })} method="POST" />}
    </>
  );
}

function Probes({ h }: { h: HostDetail }) {
  return (
    <ul class="lines">
      {h.probes!.map((p) => (
        <li key={p.name}>
          <b>{p.name}</b>
          <Status kind="other" word={!p.seen ? "pending" : p.passing ? "passed" : "failed"} />
          <span>{p.reason ?? ""} {p.failingSince ? <>since <Time at={p.failingSince} /></> : null}</span>
          <span class="dim">{p.mode}</span>
        </li>
      ))}
    </ul>
  );
}

function Identity({ h }: { h: HostDetail }) {
  return (
    <dl class="facts">
      <dt>Certificate</dt><dd class="mono">{h.certSerial || "none"}</dd>
      <dt>Ends</dt><dd><Time at={h.certExpires} /></dd>
      <dt>Incarnation</dt><dd>{h.incarnation || "not enrolled"}</dd>
      <dt>Identity</dt><dd>{h.identityStatus ? <Status kind="other" word={h.identityStatus} /> : "good"}</dd>
      <dt>Agent</dt><dd>{h.agentVersion ?? "not heard of since the server started"}</dd>
      <dt>Events</dt><dd>{h.seq}</dd>
    </dl>
  );
}

// chosen are the measurements that a list names.
function chosen(list: string) {
  const names = list.split(",").map((n) => n.trim());
  const wrong = names.find((n) => !["host", "gpu", "workspaces"].includes(n) && list !== "none");
  if (wrong !== undefined) throw new Error(`${wrong || "nothing"} cannot be measured: expected any of host, gpu and workspaces, with commas, or none`);
  return { hostMetrics: names.includes("host"), gpuMetrics: names.includes("gpu"), workspaceMetrics: names.includes("workspaces") };
}

// Settings are what was tuned, and what the signed declaration leaves to the server at all.
function Settings({ r }: { r: HostResources }) {
  const s = r.settings;
  const allowed = r.delegation?.allow ?? [];
  const measures = ["host", "gpu", "workspaces"] as const;
  const measured = measures.filter((m) => s.metrics[m] !== false).join(",") || "none";
  const field = (name: string, label: string, value: number | undefined) => ({ name, label, type: "number" as const, value: value ? String(value) : "" });
  return (
    <>
      <dl class="facts">
        <dt>Reports every</dt><dd>{s.heartbeatInterval ? `${s.heartbeatInterval / 1000} s` : "default"}</dd>
        <dt>Checks every</dt><dd>{s.resyncInterval ? `${s.resyncInterval / 1000} s` : "default"}</dd>
        <dt>At a time</dt><dd>builds {s.pools.builds || "default"}, pulls {s.pools.pulls || "default"}, starts {s.pools.starts || "default"}</dd>
        <dt>Measures</dt><dd>{measured.replaceAll(",", ", ")}</dd>
        <dt>Left to the server</dt><dd>{[...(r.delegation?.kinds ?? []), ...allowed].join(", ") || "nothing"}</dd>
      </dl>
      {allowed.includes("settings")
        ? (
          <Verb operation="tune-host" label="Tune" parts={{ host: r.host }}
            fields={[field("heartbeat", "Reports every, in seconds (5 to 600)", s.heartbeatInterval && s.heartbeatInterval / 1000), field("resync", "Checks every, in seconds (1 to 3600)", s.resyncInterval && s.resyncInterval / 1000),
              field("builds", "Builds at a time", s.pools.builds), field("pulls", "Pulls at a time", s.pools.pulls), field("starts", "Starts at a time", s.pools.starts),
              { name: "metrics", label: "Measures, any of host, gpu and workspaces, or none", value: measured, required: true }]}
            body={(g) => ({ reason: g.reason, heartbeatInterval: Number(g.heartbeat) * 1000, resyncInterval: Number(g.resync) * 1000, builds: Number(g.builds), pulls: Number(g.pulls), starts: Number(g.starts), ...chosen(g.metrics!) })}
            line={(g) => `steady host set ${r.host} --heartbeat ${g.heartbeat ? g.heartbeat + "s" : "default"} --resync ${g.resync ? g.resync + "s" : "default"} --builds ${g.builds || "default"} --pulls ${g.pulls || "default"} --starts ${g.starts || "default"} --metrics ${g.metrics}${because(g)}`} />
        )
        : <p class="dim">The declaration does not leave its settings to the server. The line in fleet.yaml that would: <code>allow: [settings]</code></p>}
    </>
  );
}
