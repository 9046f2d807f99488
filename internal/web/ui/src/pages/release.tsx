import type { Override, QuarantineRow, Status as FleetStatus } from "../api";
import { HostTable, hostQuery } from "../parts/hosts";
import { Command, Empty, Loaded, Section } from "../parts/layout";
import { type Column, Pager, Table } from "../parts/table";
import { Time } from "../parts/time";
import { Verb, because } from "../parts/verb";
import { pathOf } from "../request";
import { useAnswer } from "../stream";
import { Is } from "../words";

// ReleasePage is what the newest release asks for, and what it would change on which hosts.
export function ReleasePage() {
  const status = useAnswer("status");
  const legend = useAnswer("show-fleet").value?.legend ?? [];
  // Whoever runs what the release asks for is converged; who left has nothing to run.
  const changing = legend.map((l) => l.state).filter((state) => state !== "converged" && state !== "decommissioned");
  const hosts = useAnswer("page-hosts", {}, { ...hostQuery({}), state: changing });
  const overrides = useAnswer("list-overrides");
  const quarantine = useAnswer("list-quarantine");
  return (
    <>
      <h1>Release</h1>
      <Loaded of={status}>
        {(s) => !s.release.version
          ? <Empty>None was accepted yet. <Command line="steady release build" /> <Command line="steady release sign" /> <Command line="steady release push" /></Empty>
          : (
            <>
              <p>{s.release.ref}, version {s.release.version}, accepted <Time at={s.release.acceptedAt} />. A newer one is made where the keys are: <Command line="steady release publish" /></p>
              <Table label="Channels" columns={channels} rows={s.channels ?? []} id={(c) => c.name} />
            </>
          )}
      </Loaded>
      <Section title="What it would change">
        <Loaded of={hosts}>
          {(h) => h.total === 0 || changing.length === 0 ? <Empty>Nothing: every host runs what it asks for.</Empty> : <><HostTable hosts={h.items} /><Pager total={h.total} offset={h.offset} /></>}
        </Loaded>
      </Section>
      <Section title="Quarantine">
        <div class="verbs">
          <Verb operation="add-quarantine" label="Quarantine" what="The bundle is given to no host of the channel." parts={{}}
            fields={[{ name: "channel", label: "Channel", type: "select", options: (status.value?.channels ?? []).map((c) => c.name), value: status.value?.channels?.[0]?.name ?? "", required: true }, { name: "bundle", label: "Bundle: its digest, or the first 12 of its digits", required: true }]}
            named={(g) => ({ channel: g.channel ?? "", bundle: g.bundle ?? "" })} body={(g) => ({ reason: g.reason })} line={(g) => `steady quarantine add ${g.channel} ${g.bundle || "BUNDLE"}${because(g)}`} />
        </div>
        <Loaded of={quarantine}>
          {(q) => (q.items ?? []).length === 0 ? <Empty>No bundle is refused.</Empty> : <Table label="Quarantined bundles" columns={refused} rows={q.items!} id={(x) => x.channel + x.bundle} />}
        </Loaded>
      </Section>
      <Section title="Signed overrides in force">
        <Loaded of={overrides}>
          {(o) => (o.items ?? []).length === 0 ? <Empty>None. They are signed where the keys are: <Command line="steady override sign" /></Empty> : <Table label="Overrides" columns={signed} rows={o.items!} id={(x) => x.id} />}
        </Loaded>
      </Section>
    </>
  );
}

const signed: Column<Override>[] = [
  { name: "Override", show: (o) => <a href={pathOf("show-override", { id: o.id })} download={`${o.id}.json`}>{o.id}</a> },
  { name: "Action", show: (o) => o.action },
  { name: "About", show: (o) => o.rollout ?? o.host ?? o.bundle ?? o.channel },
  { name: "Reason", show: (o) => o.reason ?? "" },
  { name: "Ends", show: (o) => <Time at={o.notAfter} /> },
];

const channels: Column<NonNullable<FleetStatus["channels"]>[number]>[] = [
  { name: "Channel", show: (c) => c.name },
  { name: "Rollout", show: (c) => (c.rollout ? <a href={`/rollouts/${c.rollout}`}>{c.rollout}</a> : "none") },
  { name: "State", show: (c) => <><Is kind="rollouts" of={c.summary} /> {c.summary.reason}</> },
  { name: "Queued", show: (c) => (c.queued ? <a href={`/rollouts/${c.queued}`}>{c.queued}</a> : "") },
];

const refused: Column<QuarantineRow>[] = [
  { name: "Bundle", show: (q) => <code>{q.bundle.slice(0, 19)}</code> },
  { name: "Channel", show: (q) => q.channel },
  { name: "Reason", show: (q) => q.reason },
  { name: "Verb", show: (q) => (
    <Verb operation="clear-quarantine" label="Clear" parts={{ channel: q.channel, bundle: q.bundle }} what="The bundle is allowed again on the channel." line={(g) => `steady quarantine clear ${q.channel} ${q.bundle.slice(7, 19)}${because(g)}`} />
  ) },
];
