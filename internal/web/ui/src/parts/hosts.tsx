import type { Host } from "../api";
import { parameter } from "../router";
import { Status } from "../words";
import { type Column, PAGE, Table } from "./table";
import { Time } from "./time";

// hostQuery is the query of a list of hosts: what is asked for, and what the address has.
export function hostQuery(of: Record<string, string>): Record<string, string> {
  const names = ["search", "channel", "tag", "state", "rollout", "sort", "offset"];
  return { limit: String(PAGE), ...Object.fromEntries(names.map((name) => [name, of[name] ?? parameter(name)])) };
}

const columns: Column<Host>[] = [
  { name: "Host", sort: "name", show: (h) => <a href={`/hosts/${h.name}`}>{h.name}</a> },
  { name: "State", sort: "state", show: (h) => <Status kind="members" word={h.state} /> },
  { name: "Runs", show: (h) => h.runs ?? (h.current ? h.current.slice(0, 19) : "") },
  { name: "Channel", sort: "channel", show: (h) => h.channel ?? "", narrow: true },
  { name: "Why", show: (h) => h.failed || (h.frozenUntil ? <>frozen, ends <Time at={h.frozenUntil} />: {h.frozenWhy}</> : (h.tags ?? []).join(", ")), narrow: true },
];

// HostTable lists hosts, a line each.
export const HostTable = ({ hosts }: { hosts: Host[] | null }) => <Table label="Hosts" columns={columns} rows={hosts ?? []} id={(h) => h.name} />;
