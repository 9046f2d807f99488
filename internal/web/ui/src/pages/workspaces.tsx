import { useEffect, useState } from "preact/hooks";

import type { HostResource } from "../api";
import { Command, Empty, Loaded } from "../parts/layout";
import { type Column, Pager, Table } from "../parts/table";
import { Time } from "../parts/time";
import { go, parameter, withParameters } from "../router";
import { may } from "../login";
import { useAnswer } from "../stream";
import { Status } from "../words";

const kinds = ["workspace", "image", "network", "volume", "snapshot", "route"];

const PAGE = 50;

// WorkspacesPage lists the resources of a kind over all hosts, and begins new ones.
export function WorkspacesPage() {
  const kind = parameter("kind") || kinds[0]!;
  const asked = Object.fromEntries(["search", "state", "sort", "offset"].map((name) => [name, parameter(name)]));
  const page = useAnswer("page-resources", {}, { kind, limit: String(PAGE), ...asked });
  const [search, setSearch] = useState(parameter("search"));
  useEffect(() => {
    const wait = setTimeout(() => go(withParameters({ search, offset: "" }), true), 30);
    return () => clearTimeout(wait);
  }, [search]);
  return (
    <>
      <h1>Workspaces</h1>
      <nav class="kinds" aria-label="Kinds">
        {kinds.map((k) => <a key={k} href={`/workspaces?kind=${k}`} aria-current={k === kind ? "page" : undefined}>{k}s</a>)}
      </nav>
      <form class="filters" role="search" onSubmit={(e) => e.preventDefault()}>
        <label>Part of HOST/NAME <input type="search" value={search} onInput={(e) => setSearch(e.currentTarget.value)} /></label>
        {parameter("state") && <a href={withParameters({ state: "", offset: "" })}>Not only {parameter("state")}</a>}
      </form>
      {may("set-resource") && <Make key={kind} kind={kind} />}
      <Loaded of={page}>
        {(p) => p.total === 0
          ? <Empty>No {kind} is like that. Bundles bring them with a Compose file, or somebody makes one here or with <Command line="steady apply -f FILE HOST" /></Empty>
          : <><Table label={`Every ${kind}`} columns={columns} rows={p.items ?? []} id={(r) => `${r.host}/${r.name}`} /><Pager total={p.total} offset={p.offset} /></>}
      </Loaded>
    </>
  );
}

const columns: Column<HostResource>[] = [
  { name: "Name", sort: "name", show: (r) => <a href={`/workspaces/${r.host}/${r.kind}/${r.name}`}>{r.name}</a> },
  { name: "Host", sort: "host", show: (r) => <a href={`/hosts/${r.host}`}>{r.host}</a> },
  { name: "State", sort: "state", show: (r) => <Status kind="resources" word={r.state || "not reported"} /> },
  { name: "Says", show: (r) => <>{r.message} {r.nextAttempt ? <>again <Time at={r.nextAttempt} />, attempt {r.attempts}</> : null}</> },
  { name: "Drift", show: (r) => ((r.differences ?? []).length > 0 ? `${r.differences!.length} differ` : ""), narrow: true },
  { name: "Layer", show: (r) => (r.declared ? r.layer : r.next ? "next bundle" : "left over"), narrow: true },
  { name: "Since", sort: "since", show: (r) => (r.since ? <Time at={r.since} /> : ""), narrow: true },
];

// Make asks where a new resource is to be; its form is on its own page.
function Make({ kind }: { kind: string }) {
  const [host, setHost] = useState(parameter("host"));
  const [name, setName] = useState("");
  const [from, setFrom] = useState(kind === "image" ? "pull" : parameter("from"));
  const hosts = useAnswer("page-hosts", {}, { limit: "20", search: host });
  const submit = (e: Event) => {
    e.preventDefault();
    go(`/workspaces/${encodeURIComponent(host)}/${kind}/${encodeURIComponent(name)}?${new URLSearchParams({ edit: "1", ...(from && { from }) })}`);
  };
  return (
    <details class="make" open={parameter("host") !== ""}>
      <summary>New {kind}…</summary>
      <form class="filters" onSubmit={submit}>
        <label>On host <input required list="make-hosts" value={host} onInput={(e) => setHost(e.currentTarget.value)} /></label>
        <datalist id="make-hosts">{(hosts.value?.items ?? []).map((h) => <option key={h.name} value={h.name} />)}</datalist>
        <label>Name <input required value={name} pattern="[a-z0-9]([a-z0-9.\-]*[a-z0-9])?" title="small letters, digits, dots and hyphens" onInput={(e) => setName(e.currentTarget.value)} /></label>
        {kind === "image" && (
          <label>It comes <select value={from} onChange={(e) => setFrom(e.currentTarget.value)}><option value="pull">from a registry</option><option value="build">from a Dockerfile</option></select></label>
        )}
        <button type="submit" class="primary">Fill in</button>
      </form>
    </details>
  );
}
