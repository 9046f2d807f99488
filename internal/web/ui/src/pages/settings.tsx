import type { Item, Source, Token } from "../api";
import { bytes, counted } from "../parts/amount";
import { Chain } from "../parts/chain";
import { InboxList, ofServer } from "../parts/inbox";
import { Command, Empty, Loaded, Section } from "../parts/layout";
import { type Column, Table } from "../parts/table";
import { Time } from "../parts/time";
import { Verb, because } from "../parts/verb";
import { may, me } from "../login";
import { useAnswer } from "../stream";
import { Is, Status } from "../words";

// SettingsPage is the server itself: who may what, what ends when, and how it is.
export function SettingsPage() {
  const status = useAnswer("status");
  return (
    <>
      <h1>Settings</h1>
      <Loaded of={status}>
        {(s) => (
          <>
            <Section title="Needs you"><InboxList inbox={ofServer(s.inbox)} /></Section>
            <Section title="Server">
              {s.safeMode && <p role="alert" class="error">{s.safeMode}</p>}
              <dl class="facts">
                <dt>Version</dt><dd>{s.version}</dd>
                <dt>Log</dt><dd>record {s.seq} of term {s.term}</dd>
                <dt>Release</dt><dd>{s.release.version ? <>{s.release.ref}, version {s.release.version}, accepted <Time at={s.release.acceptedAt} /></> : "none yet"}</dd>
                <dt>Timestamp</dt><dd><Time at={s.release.timestampAt} /></dd>
                <dt>Root</dt><dd>version {s.root.version}, epoch {s.root.epoch}, ends <Time at={s.root.expires} /></dd>
              </dl>
              <Itself />
              <SafeMode on={!!s.safeMode} />
              <p>Check the whole log, its invariants and its documents where the server's data are: <Command line="steady doctor --data DATA" /></p>
            </Section>
            <Section title="What ends">
              {(s.expiries ?? []).length === 0 ? <Empty>Nothing that the server knows of.</Empty> : <Table label="What ends" columns={ends} rows={s.expiries!} id={(i) => `${i.kind}/${i.name}`} />}
            </Section>
            <Section title="Sources of releases">
              {(s.sources ?? []).length === 0
                ? <Empty>None: releases are pushed. A server that looks for them by itself: <Command line="steady server --release-source git+https://…" /></Empty>
                : <Table label="Sources" columns={sources} rows={s.sources!} id={(x) => x.name} />}
            </Section>
          </>
        )}
      </Loaded>
      <Section title="People and their tokens">{may("list-tokens") ? <Tokens /> : <Empty>You are {me.value!.name}, with the role {me.value!.role}. An admin sees everybody's tokens here.</Empty>}</Section>
      <Section title="Keys">
        <p>Keys of the fleet are never on the server, nor in a browser. Where they are: <Command line="steady keys show" /></p>
      </Section>
    </>
  );
}

// Itself is what the server finds of itself.
function Itself() {
  return (
    <Loaded of={useAnswer("show-server")}>
      {(s) => (
        <>
          <dl class="facts">
            <dt>Running since</dt><dd><Time at={s.startedAt} /></dd>
            <dt>Last backup</dt><dd>{s.lastBackup ? <Time at={s.lastBackup} /> : <>none is marked: <Command line="steady server backup --data DATA DIR" /></>}</dd>
          </dl>
          <Chain />
          {(s.problems ?? []).length === 0
            ? <p><Status kind="other" word="ok">Takes in and grants</Status>: the log can be written, and nobody else leads it</p>
            : <ul class="needs">{s.problems!.map((p) => <li key={p.check}><Status kind="other" word="failed">{p.check}</Status> {p.message}. Next: {p.next}</li>)}</ul>}
        </>
      )}
    </Loaded>
  );
}

function SafeMode({ on }: { on: boolean }) {
  const waits = useAnswer("safe-mode").value;
  return (
   <>
    {(waits?.owed ?? []).length > 0 && <p>The server's log lacks events of {counted(waits!.owed!.length, "host")}: {waits!.owed!.slice(0, 10).map((o) => <a key={o.host} href={`/hosts/${o.host}`}>{o.host} </a>)}</p>}
    {(waits?.unheard ?? []).length > 0 && <p>Since the restore {counted(waits!.unheard!.length, "host")} did not report; the server waits until <Time at={waits!.unheardUntil} />.</p>}
    <div class="verbs">
      {on && <Verb operation="end-safe-mode" label="End safe mode" danger what="The server grants again without the events that hosts owe it." line={(g) => `steady safe-mode end${because(g)}`} />}
      <Verb operation="reconcile" label="Reconcile" noReason what="Every rollout and host is evaluated now instead of at the next tick." line={() => "steady reconcile"} />
    </div>
   </>
  );
}

// amount is a number of things, or of bytes where it is that large.
const amount = (n: number) => (n < 2 ** 24 ? String(n) : bytes(n));

const ends: Column<Item>[] = [
  { name: "What", show: (i) => <>{i.kind} {i.name}</> },
  { name: "Level", show: (i) => <Status kind="other" word={i.level} /> },
  { name: "Ends", show: (i) => (i.ends ? <Time at={i.ends} /> : i.limit ? `${amount(i.used ?? 0)} of ${amount(i.limit)}` : "") },
  { name: "Why, and what helps", show: (i) => <>{i.message} {i.next}</> },
];

const sources: Column<Source>[] = [
  { name: "Source", show: (s) => s.name },
  { name: "Release", show: (s) => (s.ref ? `${s.ref}, version ${s.version}` : "none yet") },
  { name: "Looked", show: (s) => <Time at={s.lastLook} /> },
  { name: "State", show: (s) => <Is kind="other" of={s.summary} /> },
  { name: "Why", show: (s) => s.summary.reason },
];

function Tokens() {
  const tokens = useAnswer("list-tokens");
  const columns: Column<Token>[] = [
    { name: "Name", show: (t) => <>{t.name}{t.parent && <span class="dim"> (a login in a browser)</span>}</> },
    { name: "Role", show: (t) => t.role },
    { name: "Made", show: (t) => <Time at={t.createdAt} />, narrow: true },
    { name: "Last used", show: (t) => <Time at={t.lastUsed} /> },
    { name: "Ends", show: (t) => (t.expires ? <Time at={t.expires} /> : "never") },
    { name: "Verb", show: (t) => (
      <Verb operation="revoke-token" label="Revoke" parts={{ id: t.id }} noReason danger what={`Nobody gets in with the token of ${t.name} any more, nor with the logins that it opened.`}
        fields={[{ name: "force", label: "Also if it is the last admin's", type: "checkbox" }]} body={(g) => ({ force: g.force === "true" })} line={(g) => `steady operator revoke ${t.id}${g.force ? " --force" : ""}`} />
    ) },
  ];
  return (
    <Loaded of={tokens}>
      {(t) => (
        <>
          <Table label="Tokens" columns={columns} rows={t.items ?? []} id={(x) => x.id} />
          <p>A new token is made where its bearer's file can be kept: <Command line="steady operator create NAME --role viewer" /></p>
        </>
      )}
    </Loaded>
  );
}
