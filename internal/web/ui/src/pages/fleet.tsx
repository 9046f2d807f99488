import type { Attention, PageNodeRow, Rollout, Status as FleetStatus, Step } from "../api";
import { counted } from "../parts/amount";
import { Cells } from "../parts/cells";
import { Command, Empty, Loaded, Section } from "../parts/layout";
import { Time } from "../parts/time";
import { useAnswer } from "../stream";
import { Status, titleOf } from "../words";

// FleetPage is the fleet on one screen: every host, what runs, and what needs somebody.
export function FleetPage() {
  const fleet = useAnswer("show-fleet");
  const status = useAnswer("status");
  const rollouts = useAnswer("list-rollouts");
  const nodes = useAnswer("page-nodes", {}, { needs: "true", limit: String(few) });
  const attention = useAnswer("list-attention");
  return (
    <>
      <h1>Fleet {status.value?.fleet}</h1>
      <Loaded of={fleet}>
        {({ names, groups, cells, legend }) => !names?.length || !groups || !legend
          ? <Empty>No release was accepted yet, so no host is declared. Where the fleet file and its keys are: <Command line="steady release publish" /></Empty>
          : (
            <>
              <ul class="legend" aria-label="Hosts by state">
                {legend.filter((l) => l.count > 0).map((l) => (
                  <li key={l.code}>
                    <Status kind="members" word={l.state} /> <a href={`/hosts?state=${encodeURIComponent(l.state)}`}>{l.count}<span class="hidden"> hosts are {l.state}</span></a>
                  </li>
                ))}
              </ul>
              <Cells fleet={{ names, groups, cells, legend }} />
            </>
          )}
      </Loaded>
      <Section title="Needs you">
        <Loaded of={status}>{(s) => <Needs status={s} rollouts={rollouts.value?.items ?? []} nodes={nodes.value} attention={attention.value?.items ?? []} />}</Loaded>
      </Section>
      <Section title="Rollouts under way" aside={<a href="/rollouts">All rollouts</a>}>
        <Loaded of={rollouts}>{(r) => <UnderWay rollouts={(r.items ?? []).filter((x) => !x.endedAt)} />}</Loaded>
      </Section>
    </>
  );
}

const few = 5; // hosts that a line names, and nodes with lines of their own

function Needs({ status, rollouts, nodes, attention }: { status: FleetStatus; rollouts: Rollout[]; nodes?: PageNodeRow; attention: Attention[] }) {
  const list = [
    ...(status.safeMode ? [{ text: status.safeMode, to: "/settings" }] : []),
    ...rollouts.filter((r) => !r.endedAt && r.status === "paused").map((r) => ({ text: r.blocked ?? `rollout ${r.name} is paused`, to: `/rollouts/${r.name}` })),
    ...(status.warnings ?? []).map((text) => ({ text, to: "/settings" })),
    ...never(status.hosts.neverEnrolled ?? []),
    ...(status.hosts.failed > 0 ? [{ text: `${counted(status.hosts.failed, "host")} failed`, to: "/hosts?state=failed" }] : []),
    ...(status.hosts.toEnrol > 0 ? [{ text: `${counted(status.hosts.toEnrol, "host")} to enrol again: nothing changes there until then`, to: "/hosts?sort=state" }] : []),
    ...ofNodes(nodes),
    ...ofSessions(attention),
  ];
  if (list.length === 0) return <Empty>Nothing needs you.</Empty>;
  return <ul class="needs">{list.map((n) => <li key={n.text}><a href={n.to}>{n.text}</a></li>)}</ul>;
}

// never says which hosts are declared and have not come.
function never(names: string[]) {
  if (names.length === 0) return [];
  const more = names.length > few ? ` and ${names.length - few} more` : "";
  return [{ text: `Never enrolled: ${names.slice(0, few).join(", ")}${more}. Next: steady token create ${names.length > 1 ? "HOST" : names[0]}`, to: "/hosts?state=never-enrolled" }];
}

// ofNodes says which nodes need somebody.
function ofNodes(nodes?: PageNodeRow) {
  const more = (nodes?.total ?? 0) - few;
  return [
    ...(nodes?.items ?? []).flatMap((n) => (n.needs ?? []).map((text) => ({ text: `Node ${n.name}: ${text}`, to: `/nodes/${n.name}` }))),
    ...(more > 0 ? [{ text: `${counted(more, "more node")} with something to decide`, to: "/nodes?needs=true" }] : []),
  ];
}

// ofSessions says what of sessions needs somebody.
function ofSessions(all: Attention[]) {
  const more = all.length - few;
  return [
    ...all.slice(0, few).map((a) => ({ text: `${titleOf(a.kind)} ${a.id} is ${a.state}: ${a.reason}`, to: "/attention" })),
    ...(more > 0 ? [{ text: `${more} more of sessions`, to: "/attention" }] : []),
  ];
}

function UnderWay({ rollouts }: { rollouts: Rollout[] }) {
  if (rollouts.length === 0) return <Empty>None. The next one begins with a release: <Command line="steady release publish" /></Empty>;
  return (
    <ul class="lines">
      {rollouts.map((r) => (
        <li key={r.name}>
          <a href={`/rollouts/${r.name}`}>{r.name}</a>
          <Status kind="rollouts" word={r.status} />
          <span>{r.blocked ?? ""}</span>
          <span>{r.step && `Next: ${r.step.message}`}</span>
          <Time at={r.openedAt || r.queuedAt} />
        </li>
      ))}
    </ul>
  );
}
