import { render } from "preact";
import { useEffect } from "preact/hooks";
import { later, titled } from "./parts/later";
import { Palette, opened, pages } from "./parts/palette";
import { Toasts } from "./parts/toast";
import { FleetPage } from "./pages/fleet";
import { HostPage } from "./pages/host";
import { HostsPage } from "./pages/hosts";
import { LogPage } from "./pages/log";
import { ReleasePage } from "./pages/release";
import { RolloutPage } from "./pages/rollout";
import { RolloutsPage } from "./pages/rollouts";
import { ResourcePage } from "./pages/resource";
import { SettingsPage } from "./pages/settings";
import { WorkspacesPage } from "./pages/workspaces";
import { ReplayBar } from "./parts/replaybar";
import { absolute } from "./parts/time";
import { url } from "./router";
import { Login, enter, leave, me, refused } from "./login";
import { connection, instant, replayed, seq, signedOut, useAnswer } from "./stream";
import { learn } from "./words";
import "./style.css";

const Simulate = later(() => import("./pages/forecasts").then((m) => m.SimulatePage));
const Devices = later(() => import("./pages/devices").then((m) => m.DevicesPage));
const Timeboxed = later(() => import("./pages/timeboxed").then((m) => m.TimeboxedPage));

// pageOf are the pages by the first part of their path. A page gets the rest.
const pageOf: Record<string, (props: { rest: string[] }) => preact.ComponentChildren> = {
  "": FleetPage,
  rollouts: ({ rest }) => (rest.length > 0 ? <RolloutPage key={rest.join("/")} rest={rest} /> : <RolloutsPage />),
  hosts: ({ rest }) => (rest.length > 0 ? <HostPage key={rest[0]} rest={rest} /> : <HostsPage />),
  workspaces: ({ rest }) => (rest.length === 3 && rest.every(Boolean) ? <ResourcePage key={rest.join("/")} rest={rest} /> : <WorkspacesPage />),
  nodes: ({ rest }) => <Devices first="nodes" rest={rest} />,
  config: ({ rest }) => <Devices first="config" rest={rest} />,
  drift: ({ rest }) => <Devices first="drift" rest={rest} />,
  sessions: ({ rest }) => <Timeboxed first="sessions" rest={rest} />,
  calendar: ({ rest }) => <Timeboxed first="calendar" rest={rest} />,
  attention: ({ rest }) => <Timeboxed first="attention" rest={rest} />,
  templates: ({ rest }) => <Timeboxed first="templates" rest={rest} />,
  release: ReleasePage,
  simulate: () => <Simulate />,
  log: LogPage,
  settings: SettingsPage,
};

function Page() {
  const [first = "", ...rest] = url.value.split("?")[0]!.slice(1).split("/").map(decodeURIComponent);
  const P = pageOf[first];
  return P ? <P rest={rest} /> : <><h1>There is no such page</h1><p><a href="/">The fleet</a> is a good place to begin.</p></>;
}

// States of the connection, said at once: what is old is greyed.
const connected = { opening: "Connecting…", live: "Live", lost: "Connection lost: what you see is old" };

// Shown says, once it is on the screen, which record the page shows.
function Shown() {
  const state = { seq: String(seq.value), connection: connection.value };
  useEffect(() => {
    Object.assign(document.documentElement.dataset, state);
  }, [state.seq, state.connection]);
  return null;
}

// AsOf says of when a page is that shows the past.
function AsOf({ record }: { record: number }) {
  const status = useAnswer("status");
  const then = status.seq === record ? status.value?.now : undefined;
  useEffect(() => {
    if (then !== undefined) instant.value = then;
  }, [then]);
  useEffect(() => () => (instant.value = undefined), []);
  return <p class="asof">As it was at {instant.value === undefined ? "…" : absolute(instant.value)}, record {record}. Nothing can be changed here.</p>;
}

// Needed is how many items need a person.
function Needed() {
  const n = useAnswer("list-attention").value?.needed ?? 0;
  return n > 0 ? <> <b class="badge">{n}</b></> : null;
}

function Frame() {
  const past = replayed.value;
  const first = "/" + url.value.split(/[/?]/)[1];
  useEffect(() => {
    titled();
  }, [url.value]);
  return (
    <>
      <a class="skip" href="#main" onClick={(e) => { e.preventDefault(); document.getElementById("main")!.focus(); }}>To the content</a>
      <header class="top">
        <nav aria-label="Pages">
          {pages.map(([, name, to]) => <a key={to} href={to} aria-current={to === first || to.startsWith(`${first}/`) ? "page" : undefined}>{name}{to === "/attention" && <Needed />}</a>)}
        </nav>
        <div class="who">
          <span class={`connection ${past === undefined ? connection.value : "past"}`} role="status">{past === undefined ? connected[connection.value] : "Not now: the past"}</span>
          <button type="button" onClick={() => (opened.value = true)} aria-keyshortcuts="/ Control+K">Go to… <kbd>/</kbd></button>
          <span>{me.value!.name} <span class="dim">({me.value!.role})</span></span>
          {me.value!.login && <button type="button" onClick={leave}>Log out</button>}
        </div>
      </header>
      <main id="main" tabIndex={-1} class={past !== undefined ? "past" : connection.value === "lost" ? "old" : ""}>
        {past !== undefined && <AsOf record={past} />}
        <Page />
      </main>
      <ReplayBar />
      <Palette />
      <Toasts />
      <Shown />
    </>
  );
}

function App() {
  useEffect(() => {
    enter().catch((e: Error) => {
      refused.value = e.message;
      me.value = null;
    });
  }, []);
  useEffect(() => {
    if (signedOut.value > 0) me.value = null;
  }, [signedOut.value]);
  useEffect(() => {
    if (me.value) learn();
  }, [me.value]);
  if (me.value === undefined) return <p class="dim" aria-busy="true">Loading…</p>;
  return me.value === null ? <Login /> : <Frame />;
}

render(<App />, document.getElementById("app")!);
