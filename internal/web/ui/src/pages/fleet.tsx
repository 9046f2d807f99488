import type { Rollout, Status as FleetStatus } from "../api";
import { counted } from "../parts/amount";
import { Cells } from "../parts/cells";
import { InboxList } from "../parts/inbox";
import { Command, Empty, Loaded, Section } from "../parts/layout";
import { Time } from "../parts/time";
import { useAnswer } from "../stream";
import { Is, type Kind, Status } from "../words";

const most = 20; // items of the inbox on this page

// FleetPage is the fleet on one screen: what needs a person, every host, and what is under way.
export function FleetPage() {
  const fleet = useAnswer("show-fleet");
  const status = useAnswer("status");
  const rollouts = useAnswer("list-rollouts");
  return (
    <>
      <h1>Fleet {status.value?.fleet}</h1>
      <Loaded of={status}>{(s) => <Counts s={s} />}</Loaded>
      <Section title="Needs you" aside={<a href="/attention">Attention</a>}>
        <Loaded of={status}>{(s) => <InboxList inbox={s.inbox} most={most} />}</Loaded>
      </Section>
      <Section title="Hosts" aside={<a href="/hosts">All hosts</a>}>
        <Loaded of={fleet}>
          {({ names, groups, cells, legend }) => !names?.length || !groups || !legend
            ? <Empty>No host is declared. Hosts come with a release, made where the fleet file and its keys are: <Command line="steady release publish" /></Empty>
            : (
              <>
                <ul class="legend" aria-label="Hosts by state">
                  {legend.filter((l) => l.count > 0).map((l) => (
                    <li key={l.code}>
                      <Status kind="hosts" word={l.state} /> <a href={`/hosts?state=${encodeURIComponent(l.state)}`}>{l.count}<span class="hidden"> {l.count === 1 ? "host is" : "hosts are"} {l.state}</span></a>
                    </li>
                  ))}
                </ul>
                <Cells fleet={{ names, groups, cells, legend }} />
              </>
            )}
        </Loaded>
      </Section>
      <Section title="Rollouts under way" aside={<a href="/rollouts">All rollouts</a>}>
        <Loaded of={rollouts}>{(r) => <UnderWay rollouts={(r.items ?? []).filter((x) => !x.endedAt)} />}</Loaded>
      </Section>
    </>
  );
}

const sum = (counts: Record<string, number>) => Object.values(counts).reduce((n, c) => n + c, 0);

// Counts are how many there are of each kind, by their words.
function Counts({ s }: { s: FleetStatus }) {
  const behind = sum(s.hosts.behind ?? {});
  const of = (name: string, to: string, kind: Kind, counts: Record<string, number>) => sum(counts) > 0 && (
    <>
      <dt><a href={to}>{counted(sum(counts), name)}</a></dt>
      <dd>{Object.entries(counts).filter(([, c]) => c > 0).sort().map(([word, c]) => <span key={word}>{c} <Status kind={kind} word={word} /> </span>)}</dd>
    </>
  );
  return (
    <dl class="facts">
      {s.hosts.total > 0 && (
        <>
          <dt><a href="/hosts">{counted(s.hosts.total, "host")}</a></dt>
          <dd>
            {s.hosts.online} online
            {behind > 0 && <>; {behind} behind {behind === 1 ? "its channel" : "their channels"}: {Object.entries(s.hosts.behind).filter(([, c]) => c > 0).sort().map(([code, c]) => `${c} ${code}`).join(", ")}</>}
          </dd>
        </>
      )}
      {of("node", "/nodes", "nodes", s.nodes ?? {})}
      {of("session", "/sessions", "sessions", s.sessions ?? {})}
    </dl>
  );
}

function UnderWay({ rollouts }: { rollouts: Rollout[] }) {
  if (rollouts.length === 0) return <Empty>None. The next one begins with a release: <Command line="steady release publish" /></Empty>;
  return (
    <ul class="lines">
      {rollouts.map((r) => (
        <li key={r.name}>
          <a href={`/rollouts/${r.name}`}>{r.name}</a>
          <Is kind="rollouts" of={r.summary} />
          <span>{r.summary.reason}</span>
          <span>{r.step && `Next: ${r.step.message}`}</span>
          <Time at={r.openedAt || r.queuedAt} />
        </li>
      ))}
    </ul>
  );
}
