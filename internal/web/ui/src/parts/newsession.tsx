import { useEffect, useState } from "preact/hooks";
import type { NewSession as Asked, Schema, SessionParameter, SessionPreview, SessionSecret, SessionTemplate } from "../api";
import { type Problem, type Refused, call } from "../request";
import { go } from "../router";
import { now } from "../stream";
import { Status } from "../words";
import { type Document, Form } from "./form";
import { Table } from "./table";
import { Verb } from "./verb";

// boundsOf is what a parameter allows beside its type, and what it is without a value.
function boundsOf({ min, max, pattern, default: usual }: SessionParameter): string {
  const range = min !== undefined && max !== undefined ? `${min} to ${max}` : min !== undefined ? `at least ${min}` : max !== undefined ? `at most ${max}` : pattern ? `like ${pattern}` : "";
  return [range, usual === undefined ? "" : `without it ${String(usual)}`].filter(Boolean).join("; ");
}

// fieldOf is the schema of a parameter. A checkbox is no or yes: what is yes without a value is chosen.
function fieldOf(p: SessionParameter): Schema {
  const choices = p.choices?.map(String) ?? (p.type === "boolean" && p.default === true ? ["true", "false"] : undefined);
  return {
    type: p.type === "duration" ? "string" : p.type,
    description: [p.description, p.type === "duration" ? "such as 90m" : "", boundsOf(p)].filter(Boolean).join("; "),
    ...(choices ? { enum: choices } : {}),
    ...(p.default === undefined ? {} : { examples: [p.default] }),
  };
}

const isRequired = (p: SessionParameter) => p.default === undefined && p.type !== "boolean";

function schemaOf(ps: SessionParameter[]): Schema {
  return { type: "object", "x-order": ps.map((p) => p.name), required: ps.filter(isRequired).map((p) => p.name), properties: Object.fromEntries(ps.map((p) => [p.name, fieldOf(p)])) };
}

// placed are the problems of parameters, by their names.
function placed(problems: Problem[]): Problem[] {
  return problems.flatMap((p): Problem[] => {
    const name = /^parameters\.(.+)$/.exec(p.location ?? "") ?? /^parameter (\S+) is not given/.exec(p.message ?? "");
    return name ? [{ ...p, location: name[1]! }] : [];
  });
}

const minute = 60_000;

interface Times {
  start: string; // on the clock of UTC; empty is now
  before: string; // minutes that it comes up before
  length: string; // minutes
  after: string; // minutes in which it is cleaned up
}

// timeslotOf are the instants of a timeslot.
function timeslotOf(t: Times): Asked["timeslot"] {
  const start = t.start ? Date.parse(`${t.start}Z`) : now.value;
  const end = start + Number(t.length) * minute;
  const at = (ms: number) => new Date(ms).toISOString();
  return { provisionAt: at(t.start ? start - Number(t.before) * minute : start), start: at(start), end: at(end), cleanupDeadline: at(end + Number(t.after) * minute) };
}

const fields: { name: keyof Times; label: string }[] = [
  { name: "before", label: "Comes up so many minutes before" },
  { name: "length", label: "Lasts, in minutes" },
  { name: "after", label: "Is cleaned up within so many minutes" },
];

// NewSession is a form for a session of a template. What would come of it is shown before it is asked for.
export function NewSession({ template }: { template: SessionTemplate }) {
  const ps = template.parameters ?? [];
  const [name, setName] = useState("");
  const [times, setTimes] = useState<Times>({ start: "", before: "10", length: "120", after: "15" });
  const [doc, setDoc] = useState<Document>({});
  const [seen, setSeen] = useState<SessionPreview>();
  const [refused, refuse] = useState<Refused>();
  const asked = (): Asked => ({ timeslot: timeslotOf(times), template: template.name, parameters: { ...Object.fromEntries(ps.filter((p) => p.type === "boolean" && p.default === undefined).map((p) => [p.name, false])), ...doc } });
  const all = JSON.stringify([name, times, doc]);
  useEffect(() => setSeen(undefined), [all]); // what was seen is of other values
  const problems = placed(refused?.problems ?? []);
  const preview = (e: Event) => {
    e.preventDefault();
    refuse(undefined);
    call("preview-session", { name }, asked()).then(setSeen, refuse);
  };
  const time = ({ name: field, label }: (typeof fields)[number]) => (
    <label key={field}>{label} <input type="number" min={field === "length" ? 1 : 0} required value={times[field]} onInput={(e) => setTimes({ ...times, [field]: e.currentTarget.value })} /></label>
  );
  return (
    <>
      <form onSubmit={preview}>
        <div class="filters">
          <label>Name <input required value={name} pattern="[a-z0-9]([a-z0-9._\-]*[a-z0-9])?" title="small letters, digits, dots and hyphens" onInput={(e) => setName(e.currentTarget.value)} /></label>
          <label>Starts (UTC; empty: now) <input type="datetime-local" value={times.start} onInput={(e) => setTimes({ ...times, start: e.currentTarget.value })} /></label>
          {fields.map(time)}
        </div>
        {ps.length > 0 && <fieldset><legend>Parameters</legend><Form id="parameter" schema={schemaOf(ps)} doc={doc} set={setDoc} problems={problems} /></fieldset>}
        {refused && (problems.length === 0 || problems.length < refused.problems.length) && <p role="alert" class="error">{refused.message}</p>}
        <div class="verbs"><button type="submit">Preview</button></div>
      </form>
      {seen && <Preview seen={seen} />}
      {seen && <Create name={name} asked={asked} />}
    </>
  );
}

// Preview says where its pods would go now.
function Preview({ seen }: { seen: SessionPreview }) {
  const pods = seen.pods ?? [];
  return (
    <div role="status">
      <p><Status kind="other" word={seen.fits ? "ok" : "waiting"}>{seen.fits ? "Each pod has a host now." : "A pod has no host now: asked for, it would wait for one."}</Status> Nothing is reserved yet.</p>
      <Table label="Where its pods would go" rows={pods} id={(p) => p.pod} columns={[
        { name: "Pod", show: (p) => p.pod },
        { name: "Host", show: (p) => p.host && <a href={`/hosts/${p.host}`}>{p.host}</a> },
        { name: "GPUs", show: (p) => (p.gpus ?? []).join(", ") },
        { name: "Why", show: (p) => <>{p.message}{(p.leftOut ?? []).map((h) => <div key={h.host}>{h.host}: {h.message}</div>)}</> },
      ]} />
    </div>
  );
}

// Create asks for the session, with the file from which the command line does the same.
function Create({ name, asked }: { name: string; asked: () => Asked }) {
  const [file, setFile] = useState("");
  const [error, setError] = useState("");
  const [secrets, setSecrets] = useState<SessionSecret[]>([]);
  const create = async () => {
    const made = await call("create-session", { name }, asked());
    setSecrets(made.secrets ?? []);
    if ((made.secrets ?? []).length === 0) go(`/sessions/${name}`);
  };
  const show = () => {
    const { timeslot, template, parameters } = asked();
    call("convert-yaml", {}, { value: { name, timeslot, template, parameters } }).then((c) => setFile(c.yaml ?? ""), (e: Error) => setError(e.message));
  };
  useEffect(show, []);
  if (secrets.length > 0) return <Secrets of={secrets} name={name} />;
  return (
    <>
      <div class="verbs">
        <Verb operation="create-session" label="Create" parts={{ name }} noReason what="Its hosts are booked at once." send={create} line={() => `steady session create -f ${name}.yaml`} />
      </div>
      {error && <p role="alert" class="error">{error}</p>}
      <details><summary>{name}.yaml</summary><pre tabIndex={0}>{file}</pre></details>
    </>
  );
}

// Secrets shows what was made for the pods of a session, which nothing shows again.
function Secrets({ of, name }: { of: SessionSecret[]; name: string }) {
  return (
    <div role="status">
      <p>The session is asked for. Its secrets are shown this once:</p>
      <Table label="Secrets" rows={of} id={(x) => `${x.pod} ${x.name}`} columns={[
        { name: "Pod", show: (x) => x.pod },
        { name: "Secret", show: (x) => x.name },
        { name: "Value", show: (x) => <code>{x.value}</code> },
      ]} />
      <p><a href={`/sessions/${name}`}>To the session</a></p>
    </div>
  );
}
