import { useState } from "preact/hooks";
import type { Adoption, NodeDetail, NodeObject, NodeRow, Outcome } from "../api";
import { counted } from "../parts/amount";
import { Events } from "../parts/events";
import { Choice, Part, paged } from "../parts/filters";
import { Command, Empty, Loaded, Section } from "../parts/layout";
import { Episodes, LegTable, Outcomes } from "../parts/legs";
import { type Column, Pager, Table } from "../parts/table";
import { Time } from "../parts/time";
import { Verb, because, quoted } from "../parts/verb";
import { stringify } from "../exact";
import { call } from "../request";
import { parameter, withParameters } from "../router";
import { may } from "../login";
import { replayed, useAnswer } from "../stream";
import { Is, Status, wordsOf } from "../words";

// NodesPage lists the nodes, devices that own their configuration.
export function NodesPage() {
  const nodes = useAnswer("page-nodes", {}, paged("search", "status", "needs"));
  const only = parameter("needs") !== "";
  return (
    <>
      <h1>Nodes</h1>
      <form class="filters" role="search" onSubmit={(e) => e.preventDefault()}>
        <Part name="search" label="Name" />
        <Choice name="status" label="Status" values={wordsOf("nodes")} />
        <a href={withParameters({ needs: only ? "" : "true", offset: "" })}>{only ? "Not only those that need a person" : "Only those that need a person"}</a>
      </form>
      <p><a href="/drift">Drift of all nodes, and what was decided about it</a></p>
      <Loaded of={nodes}>
        {(p) => p.total === 0
          ? <Empty>No node is like that. A node registers with a token, made where the keys are: <Command line="steady node token NAME" /></Empty>
          : <><Table label="Nodes" columns={columns} rows={p.items ?? []} id={(n) => n.name} /><Pager {...p} /></>}
      </Loaded>
    </>
  );
}

const count = (n: number | undefined) => n || "";

// Tags are the kinds of drift of a node, each a link to the list.
function Tags({ n }: { n: NodeRow }) {
  const kinds = Object.entries(n.drift).filter(([, c]) => c > 0).sort();
  return (
    <>
      {kinds.map(([kind, c]) => <span key={kind}><Status kind="drift" word={kind} /> <a href={`/drift?node=${n.name}&drift=${kind}`}>{c}<span class="hidden"> {kind} on {n.name}</span></a> </span>)}
      {n.conflicts > 0 && <><Status kind="drift" word="conflict" /> <a href={`/drift?node=${n.name}`}>{n.conflicts}<span class="hidden"> conflicts on {n.name}</span></a></>}
    </>
  );
}

const columns: Column<NodeRow>[] = [
  { name: "Node", show: (n) => <a href={`/nodes/${n.name}`}>{n.name}</a> },
  { name: "Status", show: (n) => <><Is kind="nodes" of={n.summary} /> {n.summary.since ? <>since <Time at={n.summary.since} /></> : null}</> },
  { name: "Driver", show: (n) => [n.driver, n.version].filter(Boolean).join(" "), narrow: true },
  { name: "Pushed", show: (n) => count(n.legs.pushed), narrow: true },
  { name: "Waiting", show: (n) => count((n.legs.pending ?? 0) + (n.legs.pushing ?? 0)), narrow: true },
  { name: "Failed", show: (n) => count(n.legs.failed), narrow: true },
  { name: "Drift", show: (n) => <Tags n={n} /> },
  { name: "Why", show: (n) => n.summary.reason },
];

// NodePage is one node: where it stands, what is pushed to it, its drift, and what was decided.
export function NodePage({ node }: { node: string }) {
  const answer = useAnswer("show-node", { node });
  const [came, setCame] = useState<Outcome[]>();
  return (
    <>
      <h1>Node {node}</h1>
      <Loaded of={answer}>
        {(n) => (
          <>
            <Standing n={n} />
            {n.paused && <Paused n={n} />}
            {n.adoption && <Adopt key={n.adoption.since} node={node} adoption={n.adoption} done={setCame} />}
            {came && <Section title="Adopted"><Outcomes list={came} /></Section>}
            <Section title="What it has">
              {(n.objects ?? []).length === 0 ? <Empty>Nothing is defined for it. <a href="/config/flow">Make a flow</a>, or <Command line={`steady flow create NAME --node ${node}`} /></Empty> : <LegTable of="node" legs={n.objects!} />}
            </Section>
            <Section title="Drift" aside={<a href={`/drift?node=${node}`}>Decide about several</a>}><Episodes list={n.episodes ?? []} /></Section>
          </>
        )}
      </Loaded>
      <Section title="Timeline" aside={<a href={`/log?about=${encodeURIComponent(`node/${node}`)}`}>All of it</a>}><Events about={`node/${node}`} limit={20} /></Section>
    </>
  );
}

function Standing({ n }: { n: NodeDetail }) {
  const parts = { node: n.name };
  return (
    <>
      <p class="why"><Is kind="nodes" of={n.summary} /> {n.summary.since ? <>since <Time at={n.summary.since} /></> : null} {n.summary.reason}</p>
      {n.problem && <p role="alert" class="error">Its last report or connection was refused: {n.problem}. The timeline says why.</p>}
      {n.status === "not-registered" && <p>It never registered. Next: <Command line={`steady node token ${n.name}`} /></p>}
      <dl class="facts">
        <dt>Driver</dt><dd>{n.driver ? `${n.driver}, ${n.version}` : "not known yet"}</dd>
        <dt>Kinds</dt><dd>{(n.collections ?? []).map((c) => c.kind).join(", ") || "not known yet"}</dd>
        <dt>Compared</dt><dd><Time at={n.comparedAt} />{n.comparedAt ? `, ${counted(n.reported, "object")} on it` : ""}</dd>
        <dt>Registered</dt><dd><Time at={n.registeredAt} /></dd>
        {n.instance && <><dt>Instance</dt><dd>{n.instance}</dd></>}
        {n.machine && <><dt>Machine</dt><dd>{n.machine}</dd></>}
      </dl>
      <div class="verbs" role="group" aria-label="Verbs">
        {n.registeredAt > 0 && n.status !== "retired" && (
          <>
            <Verb operation="operate-node" label="Reconcile" parts={parts} named={() => ({ verb: "reconcile" })} noReason body={() => ({})} what="Its configuration is read and compared now." line={() => `steady node reconcile ${n.name}`} />
            <Verb operation="retire-node" label="Retire" parts={parts} danger what="Its key and its tokens are refused from now on. What is defined for it stays, and waits." line={(g) => `steady node retire ${n.name}${because(g)}`} />
          </>
        )}
      </div>
    </>
  );
}

function Paused({ n }: { n: NodeDetail }) {
  const parts = { node: n.name };
  return (
    <Section title="Nothing is pushed">
      <p>{n.paused!.detail}, <Time at={n.paused!.since} />. Nothing on the node changes until somebody decides.</p>
      <div class="verbs">
        <Verb operation="resume-node" label="Resume" parts={parts} what="What differs is reported as drift, and each is decided about by itself." line={(g) => `steady node resume ${n.name}${because(g)}`} />
        <Verb operation="resume-node" label="Resume and push" parts={parts} what="What the node lost is pushed again. What it has otherwise is reported as a conflict, and not overwritten."
          body={(g) => ({ push: true, reason: g.reason })} line={(g) => `steady node resume ${n.name} --push${because(g)}`} />
      </div>
    </Section>
  );
}

const few = 100; // objects that are listed to choose from

// Adopt asks about the objects that a node had before the server knew it.
function Adopt({ node, adoption, done }: { node: string; adoption: Adoption; done: (came: Outcome[]) => void }) {
  const all = adoption.objects ?? [];
  const [chosen, choose] = useState<NodeObject[]>([]);
  const [search, setSearch] = useState("");
  const has = (o: NodeObject) => chosen.some((c) => c.kind === o.kind && c.id === o.id);
  const toggle = (o: NodeObject) => choose(has(o) ? chosen.filter((c) => c.kind !== o.kind || c.id !== o.id) : [...chosen, o]);
  const listed = all.filter((o) => `${o.kind}/${o.id}`.includes(search));
  const adopt = async (objects: NodeObject[], reason: string | undefined) => done((await call("adopt-objects", { node }, { objects: objects.map(({ kind, id }) => ({ kind, id })), reason })) ?? []);
  const deciding = may("adopt-objects") && replayed.value === undefined;
  const one: Column<NodeObject>[] = [
    { name: "Object", show: (o) => (deciding ? <label><input type="checkbox" checked={has(o)} onInput={() => toggle(o)} /> {o.kind} {o.id}</label> : `${o.kind} ${o.id}`) },
    { name: "As it is on the node", show: (o) => <code>{stringify(o.config).slice(0, 300)}</code> },
  ];
  return (
    <Section title={`${counted(all.length, "object")} to adopt`}>
      <p>The node has them, and the server does not know them; found <Time at={adoption.since} />. Ingesting changes nothing on the node, and can be undone. It can wait: until somebody decides they stay as they are.</p>
      <div class="verbs">
        <Verb operation="adopt-objects" label="Ingest all" parts={{ node }} what={`The server has all ${all.length} as the node has them.`} send={(g) => adopt([], g.reason)} line={(g) => `steady node adopt ${node}${because(g)}`} />
        {chosen.length > 0 && (
          <Verb operation="adopt-objects" label="Ingest chosen" parts={{ node }} what={`The server has these ${chosen.length} as the node has them; it asks about the rest as before.`} send={(g) => adopt(chosen, g.reason).then(() => choose([]))}
            line={(g) => `steady node adopt ${node} ${chosen.map((o) => quoted(`${o.kind}/${o.id}`)).join(" ")}${because(g)}`} />
        )}
        <Verb operation="operate-node" label="Dismiss" parts={{ node }} named={() => ({ verb: "dismiss" })} what="Each becomes an episode of drift, and is decided about by itself." body={(g) => ({ reason: g.reason })} line={(g) => `steady node dismiss ${node}${because(g)}`} />
      </div>
      <details>
        <summary>Choose</summary>
        <label>Part of KIND/ID <input type="search" value={search} onInput={(e) => setSearch(e.currentTarget.value)} /></label>
        <Table label="Objects to adopt" columns={one} rows={listed.slice(0, few)} id={(o) => `${o.kind}/${o.id}`} />
        {listed.length > few && <p class="dim">and {listed.length - few} more</p>}
      </details>
    </Section>
  );
}
