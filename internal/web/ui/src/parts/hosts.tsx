import type { Host } from "../api";
import { parameter } from "../router";
import { Is } from "../words";
import { type Column, PAGE, Table } from "./table";

// hostQuery is the query of a list of hosts: what is asked for, and what the address has.
export function hostQuery(of: Record<string, string>): Record<string, string> {
  const names = ["search", "channel", "tag", "state", "rollout", "sort", "offset"];
  return { limit: String(PAGE), ...Object.fromEntries(names.map((name) => [name, of[name] ?? parameter(name)])) };
}

// Tags are those of a host, each a link to the hosts that have it.
export const Tags = ({ of: h }: { of: Host }) => <>{(h.tags ?? []).map((t) => <a key={t} class="tag" href={`/hosts?tag=${encodeURIComponent(t)}`}>{t}</a>)}</>;

const columns: Column<Host>[] = [
  { name: "Host", sort: "name", show: (h) => <a href={`/hosts/${h.name}`}>{h.name}</a> },
  { name: "State", sort: "state", show: (h) => <Is kind="hosts" of={h.summary} /> },
  { name: "Why", show: (h) => h.summary.reason },
  { name: "Tags", show: (h) => <Tags of={h} /> },
  { name: "Runs", show: (h) => h.runs ?? (h.current ? h.current.slice(0, 19) : ""), narrow: true },
  { name: "Channel", sort: "channel", show: (h) => h.channel ?? "", narrow: true },
];

// HostTable lists hosts, a line each.
export const HostTable = ({ hosts }: { hosts: Host[] | null }) => <Table label="Hosts" columns={columns} rows={hosts ?? []} id={(h) => h.name} />;
