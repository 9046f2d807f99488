import { useEffect, useState } from "preact/hooks";
import type { ManagedResource, PlanAnswer, Resource, Schema, SetResource } from "../api";
import { type Document, Form, Source, filled } from "../parts/form";
import { Command, Empty, Loaded, Section } from "../parts/layout";
import { WorkspaceMetrics } from "../parts/metrics";
import { Output } from "../parts/output";
import { Table } from "../parts/table";
import { Terminal } from "../parts/terminal";
import { Time } from "../parts/time";
import { Verb, because } from "../parts/verb";
import { stringify } from "../exact";
import { type Problem, Refused, call } from "../request";
import { go, parameter, withParameters } from "../router";
import { may } from "../login";
import { type Answered, replayed, useAnswer } from "../stream";
import { Status } from "../words";

type Place = Record<"host" | "kind" | "name", string>;

// useSchema is the published form of a kind.
function useSchema(kind: string): Schema | undefined {
  const [schema, setSchema] = useState<Schema>();
  useEffect(() => {
    call("show-schema", { kind }).then(setSchema, () => setSchema(undefined));
  }, [kind]);
  return schema;
}

// ResourcePage is one resource of a host: where it stands, what is set of it, and what can be
// done about it.
export function ResourcePage({ rest }: { rest: string[] }) {
  const [host, kind, name] = rest as [string, string, string];
  const place = { host, kind, name };
  const all = useAnswer("list-resources", { host });
  const set = useAnswer("show-resource", place);
  const schema = useSchema(kind);
  const edit = parameter("edit") !== "";
  return (
    <>
      <h1>{kind[0]!.toUpperCase() + kind.slice(1)} {host}/{name}</h1>
      <Loaded of={all}>
        {(r) => {
          const is = (r.resources ?? []).find((x) => x.kind === kind && x.name === name);
          const left = (r.delegation?.kinds ?? []).includes(kind);
          return (
            <>
              <Standing place={place} is={is} />
              {schema && <Verbs place={place} is={is} set={set.value} schema={schema} left={left} allow={r.delegation?.allow ?? []} />}
              {!left && <NotLeft place={place} />}
              {(is?.differences ?? []).length > 0 && <Section title="Differs"><Differences is={is!} /></Section>}
              {edit && left && schema && settled(set)
                ? <Section title={set.value ? "Change" : "Make"}><Edit key={name} place={place} schema={schema} set={set.value} signed={r.delegation?.bounds.requireSigned} others={r.resources ?? []} /></Section>
                : <Section title="Set" aside={left && schema && (!set.value || (is && can(is, "set"))) && replayed.value === undefined && may("set-resource") && <a href={withParameters({ edit: "1" })}>{set.value ? "Change" : "Make"}</a>}><WhatIsSet set={set} is={is} /></Section>}
              {is && <Inside place={place} state={is.state} allow={r.delegation?.allow ?? []} />}
            </>
          );
        }}
      </Loaded>
      {kind === "workspace" && <Section title="Measured"><WorkspaceMetrics host={host} name={name} /></Section>}
    </>
  );
}

// settled reports whether it is known if anything is set.
const settled = (set: Answered<ManagedResource>) => set.value !== undefined || set.error?.status === 404;

function Standing({ place, is }: { place: Place; is: Resource | undefined }) {
  if (!is) return <Empty>Host <a href={`/hosts/${place.host}`}>{place.host}</a> has no such {place.kind}.</Empty>;
  return (
    <>
      <p class="why">
        <Status kind="resources" word={is.state || "not reported"} /> {is.message}
        {is.nextAttempt ? <> Again <Time at={is.nextAttempt} />, attempt {is.attempts}.</> : null}
      </p>
      <dl class="facts">
        <dt>Host</dt><dd><a href={`/hosts/${place.host}`}>{place.host}</a></dd>
        <dt>Layer</dt><dd>{is.declared ? is.layer : is.next ? "next bundle" : "left over"}</dd>
        <dt>Since</dt><dd>{is.since ? <Time at={is.since} /> : "not reported"}</dd>
      </dl>
    </>
  );
}

// NotLeft says what the declaration would have to leave to the server.
function NotLeft({ place }: { place: Place }) {
  return (
    <p class="dim">
      The declaration does not leave {place.kind}s of {place.host} to the server: only a release changes them. The line in fleet.yaml that would, below the host: <code>managed: [{place.kind}]</code>
    </p>
  );
}

// can reports whether the server offers a verb.
const can = (is: Resource, verb: string) => (is.verbs ?? []).some((v) => v.verb === verb && v.possible);

function Verbs({ place, is, set, schema, left, allow }: { place: Place; is: Resource | undefined; set: ManagedResource | undefined; schema: Schema; left: boolean; allow: string[] }) {
  const { host, kind, name } = place;
  if (!is) return null;
  const not = [...new Set((is.verbs ?? []).filter((v) => !v.possible).map((v) => v.message ?? ""))];
  return (
    <div class="verbs">
      {(schema["x-verbs"] ?? []).filter((verb) => can(is, verb) || (verb === "retry" && !left)).map((verb) => {
        const label = verb[0]!.toUpperCase() + verb.slice(1);
        return verb === "retry" && !left
          ? <Verb key={verb} operation="retry-host" label={label} parts={{ host }} body={(g) => ({ resource: `${kind}/${name}`, reason: g.reason })} line={(g) => `steady host retry ${host} ${kind}/${name}${because(g)}`} />
          : <Verb key={verb} operation="ask-resource" label={label} parts={{ host, kind, name, verb }} danger={verb === "stop"} line={(g) => (group[kind] ? `${group[kind]} ${verb} ${host}/${name}` : `steady host ${verb} ${host} ${kind}/${name}`) + because(g)} />;
      })}
      {kind === "workspace" && left && <SnapshotOf place={place} />}
      {["image", "snapshot"].includes(kind) && may("set-resource") && replayed.value === undefined && <a href={`/workspaces?${new URLSearchParams({ host, from: kind === "snapshot" ? `snapshot/${name}` : name })}`}>New workspace from it</a>}
      {set && can(is, "remove") && (
        <Verb operation="remove-resource" label="Remove" parts={{ host, kind, name }} danger what={kind === "workspace" ? "It goes with its container; named volumes, its image and its routes stay." : "It goes from the host once nothing uses it."}
          fields={[{ name: "consent", label: "Also although many are removed at once", type: "checkbox", after: /allowMassChange/ }]}
          body={() => undefined} query={(g) => ({ reason: g.reason ?? "", allowMassChange: g.consent ?? "" })}
          line={(g) => `steady remove ${host} ${kind}/${name}${g.consent ? " --allow-mass-change" : ""}${because(g)}`} />
      )}
      {left && not.length > 0 && <details class="signed"><summary>Not now</summary><ul>{not.map((m) => <li key={m}>{m}</li>)}</ul></details>}
      {allow.length === 0 && <span class="dim">Its declaration allows no logs and no commands.</span>}
    </div>
  );
}

// group are the commands of kinds with verbs of their own on the command line.
const group: Record<string, string> = { workspace: "steady workspace", image: "steady image" };

// SnapshotOf captures a workspace: the take after the last one of that name.
function SnapshotOf({ place: { host, name } }: { place: Place }) {
  return (
    <Verb operation="set-resource" label="Snapshot" parts={{ host, name }} what="The running workspace is captured as an image, without secrets and volumes."
      fields={[{ name: "as", label: "Name of the snapshot", value: name, required: true }, { name: "live", label: "Do not pause it meanwhile", type: "checkbox" }]}
      send={async (g) => {
        const parts = { host, kind: "snapshot", name: g.as! };
        const before = await call("show-resource", parts).catch((e) => {
          if (e instanceof Refused && e.status === 404) return undefined;
          throw e;
        });
        const old = before?.spec as { workspace?: string; take?: number; keep?: string[] } | undefined;
        if (old && old.workspace !== name) throw new Error(`snapshot ${g.as} is of workspace ${old.workspace}: give another name`);
        return call("set-resource", parts, { spec: { workspace: name, take: (old?.take ?? 0) + 1, live: g.live === "true", keep: old?.keep }, reason: g.reason, ...(before ? { version: before.version } : { create: true }) });
      }}
      line={(g) => `steady workspace snapshot ${host}/${name}${g.as !== name ? ` --as ${g.as}` : ""}${g.live ? " --live" : ""}${because(g)}`} />
  );
}

function Differences({ is }: { is: Resource }) {
  return (
    <Table label="Differences" rows={is.differences!} id={(d) => d.field} columns={[
      { name: "Field", show: (d) => <code>{d.field}</code> },
      { name: "Declared", show: (d) => d.desired ?? "nothing" },
      { name: "Found", show: (d) => d.observed ?? "nothing" },
      { name: "Takes", show: (d) => d.class },
      { name: "Why", show: (d) => d.why || d.cause, narrow: true },
    ]} />
  );
}

function WhatIsSet({ set, is }: { set: Answered<ManagedResource>; is: Resource | undefined }) {
  if (set.error?.status === 404) return <Empty>{is ? "Its bundle declares it: nothing is set of it here." : "Nothing is set."}</Empty>;
  return (
    <Loaded of={set}>
      {(s) => (
        <>
          <dl class="facts">
            <dt>By</dt><dd>{s.actor}{s.signed && ", signed"}</dd>
            <dt>At</dt><dd><Time at={s.setAt} /></dd>
            <dt>Reason</dt><dd>{s.reason || "none"}</dd>
            <dt>Ends</dt><dd>{s.notAfter ? <Time at={s.notAfter} /> : "never"}</dd>
            {s.verb && <><dt>Asked last</dt><dd>{s.verb}</dd></>}
          </dl>
          <pre tabIndex={0}>{stringify(filled(s.spec as Document), 2)}</pre>
        </>
      )}
    </Loaded>
  );
}

// begun is what a resource begins with that is made from something: an image by a pull or a build, a
// workspace from an image.
function begun(kind: string, from: string): Document {
  if (kind === "workspace" && from) return { image: from };
  if (kind !== "image") return {};
  return from === "build" ? { build: { inline: "FROM " } } : from === "pull" ? { pull: { policy: "missing" } } : {};
}

// Edit makes or changes a resource: as fields and as text, with what the host would do.
function Edit({ place, schema, set, signed, others }: { place: Place; schema: Schema; set: ManagedResource | undefined; signed: boolean | undefined; others: Resource[] }) {
  const { host, kind, name } = place;
  const { name: _, ...was } = (set?.spec ?? {}) as Document;
  const [doc, setDoc] = useState<Document>(set ? filled(was) : begun(kind, parameter("from")));
  const [plan, setPlan] = useState<PlanAnswer>();
  const [error, setError] = useState("");
  const [problems, setProblems] = useState<Problem[]>([]);
  const change = (doc: Document) => {
    setDoc(doc);
    setProblems([]);
    setPlan(undefined);
  };
  const refused = (e: Error) => setProblems(e instanceof Refused ? e.problems : []);
  const preview = () => {
    setError("");
    setProblems([]);
    setPlan(undefined);
    call("plan-resource", { host }, { kind, name, spec: doc }).then(setPlan, (e) => {
      setError((e as Error).message);
      refused(e as Error);
    });
  };
  const of = (kind: string, as = "") => others.filter((r) => r.kind === kind && r.declared).map((r) => as + r.name);
  const names = { image: [...of("image"), ...of("snapshot", "snapshot/")], workspace: of("workspace") };
  const [base] = useState(set?.version); // what the draft was made of
  const body = (g: Record<string, string>): SetResource => ({ spec: doc, reason: g.reason, ...(set ? { version: base } : { create: true }), ...(g.hours ? { notAfter: Date.now() + Math.round(Number(g.hours) * 3_600_000) } : {}) });
  if (signed) return <p>This host takes only what an operator signed, where the keys are: <Command line={`steady apply -f ${name}.yaml ${host} --sign keys`} /></p>;
  return (
    <>
      <div class="edit">
        <Form id="field" schema={schema} doc={doc} set={change} skip={["name"]} names={names} problems={problems} />
        <Source id="source" doc={doc} set={change} typed={() => setPlan(undefined)} />
      </div>
      <div class="verbs">
        <button type="button" onClick={preview}>Preview</button>
        <Verb operation="set-resource" label="Set" parts={{ host, kind, name }} done={() => go(withParameters({ edit: "", from: "" }), true)}
          send={(g) => call("set-resource", { host, kind, name }, body(g)).catch((e) => {
            refused(e as Error);
            throw e;
          })}
          fields={[{ name: "hours", label: "Ends after so many hours (empty: never)", type: "number" }]}
          line={(g) => `steady apply -f ${name}.yaml ${host}${g.hours ? ` --not-after ${g.hours}h` : ""}${because(g)}`} />
        <a href={withParameters({ edit: "", from: "" })}>Leave it</a>
      </div>
      {error && <p role="alert" class="error">{error}</p>}
      {plan && <Verdict plan={plan} />}
    </>
  );
}

// Verdict is what the host says that setting it would do.
function Verdict({ plan }: { plan: PlanAnswer }) {
  return (
    <div role="status">
      <p><b>Preview:</b> {plan.does === "none" ? "nothing would change" : plan.does} {plan.why}</p>
      {(plan.fields ?? []).length > 0 && (
        <Table label="What each field would do" rows={plan.fields!} id={(f) => f.field} columns={[
          { name: "Field", show: (f) => <code>{f.field}</code> },
          { name: "Takes", show: (f) => f.class },
          { name: "Now", show: (f) => f.observed ?? "" },
          { name: "Then", show: (f) => f.desired ?? "" },
          { name: "Why", show: (f) => f.why || f.cause || "", narrow: true },
        ]} />
      )}
    </div>
  );
}

// Inside is what comes out of a resource, and a terminal in it.
function Inside({ place: { host, kind, name }, state, allow }: { place: Place; state: string | undefined; allow: string[] }) {
  const [shown, show] = useState("");
  const [command, setCommand] = useState("sh");
  const toggle = (what: string) => () => show(shown === what ? "" : what);
  const output = kind === "image" ? "Output" : "Log";
  if (!["workspace", "image"].includes(kind) || replayed.value !== undefined) return null;
  return (
    <Section title="Inside">
      <div class="verbs">
        {allow.includes("logs") && may("workspace-logs") && <button type="button" aria-expanded={shown === "output"} onClick={toggle("output")}>{output}</button>}
        {kind === "workspace" && allow.includes("exec") && may("workspace-terminal") && (
          <>
            <button type="button" aria-expanded={shown === "terminal"} onClick={toggle("terminal")}>Terminal</button>
            <label>Command <input value={command} disabled={shown === "terminal"} onInput={(e) => setCommand(e.currentTarget.value)} /></label>
          </>
        )}
      </div>
      {!(allow.includes("logs") && (kind === "image" || allow.includes("exec"))) && <p class="dim">The line in fleet.yaml that allows more, below the host: <code>allow: [logs, exec]</code></p>}
      {shown === "output" && <Output key={String(state === "Building")} host={host} kind={kind} name={name} />}
      {shown === "terminal" && <Terminal host={host} name={name} command={command || "sh"} onClose={() => show("")} />}
    </Section>
  );
}
