import { useState } from "preact/hooks";
import type { Definition, ObjectDetail, ObjectPreview, Revision, SetObject } from "../api";
import { defined, inMode, legOf, placed, withLeg, written } from "../parts/definition";
import { Events } from "../parts/events";
import { type Document, Source } from "../parts/form";
import { Grown, isObject } from "../parts/grown";
import { Empty, Loaded, Section } from "../parts/layout";
import { Do, LegTable } from "../parts/legs";
import { type Column, Table } from "../parts/table";
import { Time } from "../parts/time";
import { Verb, because } from "../parts/verb";
import { stringify } from "../exact";
import { call } from "../request";
import { go, parameter, withParameters } from "../router";
import { may } from "../login";
import { replayed, useAnswer } from "../stream";
import { Is, titleOf, useKinds } from "../words";

// ObjectPage is a flow, a tunnel or an object of another kind: what it is to be, how far each of its nodes is,
// and what it was.
export function ObjectPage({ kind, name }: { kind: string; name: string }) {
  const is = useAnswer("show-object", { kind, name });
  const editing = parameter("edit") !== "" && may("set-object") && replayed.value === undefined;
  const about = `${kind}/${name}`;
  return (
    <>
      <h1>{titleOf(kind)} {name}</h1>
      {is.error?.status === 404 && editing
        ? <Edit kind={kind} name={name} />
        : <Loaded of={is}>{(o) => <Known o={o} editing={editing} />}</Loaded>}
      {is.error?.status !== 404 && <Section title="Timeline" aside={<a href={`/log?about=${encodeURIComponent(about)}`}>All of it</a>}><Events about={about} limit={20} /></Section>}
    </>
  );
}

function Known({ o, editing }: { o: ObjectDetail; editing: boolean }) {
  const from = parameter("from");
  const draft = (o.history ?? []).find((r) => String(r.version) === from)?.definition;
  return (
    <>
      <p class="why">
        <Is kind="legs" of={o.summary} /> {o.summary.reason} <span class="dim">version {o.version}, changed <Time at={o.changedAt} />{o.removed && !o.inBin && ", being deleted"}</span>
      </p>
      <Verbs o={o} />
      <Section title="Pushes"><LegTable of="object" legs={o.legs ?? []} /></Section>
      {(o.inconsistent ?? []).length > 0 && (
        <Section title="Its legs do not agree">
          <ul class="needs">{o.inconsistent!.map((x) => <li key={x.field}><code>{x.field}</code>: {Object.entries(x.values).map(([role, v]) => `${role} has ${v}`).join(", ")}</li>)}</ul>
        </Section>
      )}
      {editing
        ? <Edit key={from} kind={o.kind} name={o.name} is={o} draft={draft} />
        : (
          <Section title="Definition" aside={may("set-object") && replayed.value === undefined && <a href={withParameters({ edit: "1" })}>Change</a>}>
            <pre tabIndex={0}>{stringify(written(o.kind, o.definition), 2)}</pre>
          </Section>
        )}
      <Section title="History"><Table label="Versions" columns={versions} rows={[...(o.history ?? [])].reverse()} id={(r) => String(r.version)} /></Section>
    </>
  );
}

function Verbs({ o: { kind, name, removed, inBin, legs } }: { o: ObjectDetail }) {
  const { command } = useKinds().find(kind);
  const line = (verb: string) => (g: Record<string, string>) => `steady ${command} ${verb} ${name}${because(g)}`;
  return (
    <div class="verbs" role="group" aria-label="Verbs">
      {inBin && <Verb operation="restore-object" label="Restore" parts={{ kind, name }} what="It is pushed again." line={line("restore")} />}
      {!removed && (
        <Verb operation="remove-object" label="Remove" parts={{ kind, name }} danger what={`${(legs ?? []).map((l) => l.node).join(", ")} deletes it. A node that has changed it meanwhile keeps it, and you are asked.`}
          body={() => undefined} query={(g) => ({ reason: g.reason ?? "" })} line={line("rm")} />
      )}
    </div>
  );
}

const versions: Column<Revision>[] = [
  { name: "Version", show: (r) => r.version },
  { name: "At", show: (r) => <Time at={r.at} /> },
  { name: "Origin", show: (r) => r.origin, narrow: true },
  { name: "By", show: (r) => r.actor },
  { name: "Reason", show: (r) => r.reason, narrow: true },
  { name: "Draft", show: (r) => may("set-object") && replayed.value === undefined && <a href={withParameters({ edit: "1", from: String(r.version) })}>Load as a draft<span class="hidden"> version {r.version}</span></a> },
];

// blank is a definition that nothing is said of yet.
const blank = (roles: string[], mode: string): Definition => ({ mode, legs: roles.map((role) => ({ role, node: "", config: {} })) });

// Edit makes or changes an object: as fields and as text, with what each node would get.
function Edit({ kind, name, is, draft }: { kind: string; name: string; is?: ObjectDetail; draft?: Definition | undefined }) {
  const { command, modes: of } = useKinds().find(kind);
  const modes = of ?? [];
  const [doc, setDoc] = useState<Document>(() => written(kind, draft ?? is?.definition ?? blank(modes[0]?.roles ?? [kind], modes[0]?.name ?? "")));
  const [base] = useState(is?.version); // what the draft was made of
  const [seen, setSeen] = useState<ObjectPreview>();
  const [error, setError] = useState("");
  const definition = defined(kind, doc);
  const where = error ? placed(error, definition) : undefined;
  const body = (g: Record<string, string>): SetObject => ({ ...definition, ...(base ? { version: base } : { create: true }), reason: g.reason, allowPortConflict: g.allowPortConflict === "true" });
  // told keeps a refusal, which is shown at its field.
  const told = <T,>(asked: Promise<T>) => {
    setError("");
    return asked.catch((e: Error) => {
      setError(e.message);
      throw e;
    });
  };
  const change = (d: Document) => {
    setDoc(d);
    setSeen(undefined);
  };
  const preview = () => {
    setSeen(undefined);
    told(call("preview-object", { kind, name }, body({}))).then(setSeen, () => undefined);
  };
  const file = `-f ${name}.yaml`;
  return (
    <Section title={is ? "Change" : "Make"}>
      <div class="edit">
        <Fields kind={kind} doc={doc} set={change} definition={definition} wrong={where ? { [where.role]: { [where.field]: error } } : {}} modes={modes} />
        <Source id="source" config doc={doc} set={change} typed={() => setSeen(undefined)} reads={`steady ${command} ${is ? "edit" : "create"} -f reads the same`} />
      </div>
      <div class="verbs">
        <button type="button" onClick={preview}>Preview</button>
        <Verb operation="set-object" label="Set" parts={{ kind, name }} send={(g) => told(call("set-object", { kind, name }, body(g)))} done={() => go(withParameters({ edit: "", from: "" }), true)}
          fields={[{ name: "allowPortConflict", label: "Although something else uses one of its ports", type: "checkbox", after: /is used by/ }]}
          line={(g) => `steady ${command} ${is ? "edit" : "create"} ${name} ${file}${g.allowPortConflict ? " --allow-port-conflict" : ""}${because(g)}`} />
        <a href={withParameters({ edit: "", from: "" })}>Leave it</a>
      </div>
      {error && !where && <p role="alert" class="error">{error}</p>}
      {seen && <Verdict seen={seen} />}
    </Section>
  );
}

type Wrong = Record<string, Record<string, string>>; // by role and field

// Fields is a column for each leg, in the order in which they are pushed, with what they share.
function Fields({ kind, doc, set, definition, wrong, modes }: { kind: string; doc: Document; set: (d: Document) => void; definition: Definition; wrong: Wrong; modes: { name: string; roles: string[] | null }[] }) {
  const order = useKinds().find(kind).roles ?? [];
  const roles = [...(definition.legs ?? [])].map((l) => l.role).sort((a, b) => order.indexOf(a) - order.indexOf(b));
  return (
    <div>
      {modes.length > 1 && (
        <>
          <label>Mode <select value={definition.mode ?? ""} onChange={(e) => set(inMode(kind, doc, e.currentTarget.value, modes.find((m) => m.name === e.currentTarget.value)?.roles ?? []))}>
            {modes.map((m) => <option key={m.name} value={m.name}>{m.name}: {(m.roles ?? []).join(", ")}</option>)}
          </select></label>
          <h3>Shared by its legs</h3>
          <Grown id="shared" label="Shared" doc={isObject(doc.shared) ? doc.shared : {}} set={(shared) => set({ ...doc, shared })} />
        </>
      )}
      <div class="legs">
        {roles.map((role) => <Leg key={role} kind={kind} role={role} doc={doc} set={set} wrong={wrong[role] ?? {}} />)}
      </div>
    </div>
  );
}

function Leg({ kind, role, doc, set, wrong }: { kind: string; role: string; doc: Document; set: (d: Document) => void; wrong: Record<string, string> }) {
  const leg = legOf(kind, doc, role);
  const nodes = useAnswer("page-nodes", {}, { search: leg.node, limit: "20" }).value?.items ?? [];
  const change = (c: Parameters<typeof withLeg>[3]) => set(withLeg(kind, doc, role, c));
  const said = (field: string) => wrong[field] && <p role="alert" class="error">{wrong[field]}</p>;
  return (
    <fieldset class="nested">
      <legend>{titleOf(role)}</legend>
      {said("")}
      <div class="field"><label for={`${role}-node`}>Node</label><input id={`${role}-node`} list={`${role}-nodes`} required value={leg.node} aria-invalid={wrong.node ? true : undefined} onInput={(e) => change({ node: e.currentTarget.value })} /><datalist id={`${role}-nodes`}>{nodes.map((n) => <option key={n.name} value={n.name} />)}</datalist>{said("node")}</div>
      <div class="field"><label for={`${role}-id`}>What the device calls it (empty: its name)</label><input id={`${role}-id`} value={leg.id ?? ""} aria-invalid={wrong.id ? true : undefined} onInput={(e) => change({ id: e.currentTarget.value })} />{said("id")}</div>
      <Grown id={`leg-${role}`} label={`Config of ${role}`} doc={leg.config} set={(config) => change({ config })}
        problems={Object.entries(wrong).filter(([f]) => f.startsWith("config.")).map(([f, message]) => ({ location: f.slice(7), message }))} />
    </fieldset>
  );
}

// Verdict is what setting it would come to on each node.
function Verdict({ seen }: { seen: ObjectPreview }) {
  return (
    <div role="status">
      <p><b>Preview:</b> {seen.new ? "it is new" : "it is changed"}.</p>
      {(seen.ports ?? []).map((p) => <p key={p} class="error">{p}</p>)}
      {(seen.legs ?? []).map((l) => (
        <div key={l.role}>
          <h3>{l.role === l.node ? "" : `${titleOf(l.role)} on `}{l.node}</h3>
          {(l.problems ?? []).map((x) => <p key={x.message} role="alert" class="error">The device refuses it: {x.field && <code>{x.field} </code>}{x.message}</p>)}
          {l.checked && (l.problems ?? []).length === 0 && <p>The device would accept it.</p>}
          {l.wait && <p>Then it waits: {l.wait.message}. {l.wait.next && <>Next: <Do next={l.wait.next} /></>}</p>}
          {(l.fields ?? []).length === 0 ? <Empty>No field changes.</Empty> : (
            <Table label={`Fields that change on ${l.node}, ${l.role}`} rows={l.fields!} id={(f) => f.field} columns={[
              { name: "Field", show: (f) => <code>{f.field}</code> },
              { name: "Now", show: (f) => f.actual ?? <span class="dim">not set</span> },
              { name: "Then", show: (f) => f.desired ?? <span class="dim">not set</span> },
            ]} />
          )}
        </div>
      ))}
    </div>
  );
}
