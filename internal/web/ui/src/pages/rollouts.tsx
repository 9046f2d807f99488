import type { Rollout } from "../api";
import { Command, Empty, Loaded } from "../parts/layout";
import { type Column, Table } from "../parts/table";
import { Time } from "../parts/time";
import { useAnswer } from "../stream";
import { Is } from "../words";

const columns: Column<Rollout>[] = [
  { name: "Rollout", show: (r) => <a href={`/rollouts/${r.name}`}>{r.name}</a> },
  { name: "State", show: (r) => <Is kind="rollouts" of={r.summary} /> },
  { name: "Why", show: (r) => r.summary.reason },
  { name: "Opened", show: (r) => <Time at={r.openedAt || r.queuedAt} />, narrow: true },
  { name: "Ended", show: (r) => (r.endedAt ? <Time at={r.endedAt} /> : ""), narrow: true },
];

// RolloutsPage lists the rollouts, a line each, newest first.
export function RolloutsPage() {
  const rollouts = useAnswer("list-rollouts");
  return (
    <>
      <h1>Rollouts</h1>
      <Loaded of={rollouts}>
        {(r) => (r.items ?? []).length === 0
          ? <Empty>No rollout yet. Push a release to begin one: <Command line="steady release push" /></Empty>
          : <Table label="Rollouts" columns={columns} rows={r.items!} id={(x) => x.name} />}
      </Loaded>
    </>
  );
}
