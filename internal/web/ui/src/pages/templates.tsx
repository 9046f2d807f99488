import { useEffect, useState } from "preact/hooks";
import type { SessionTemplate } from "../api";
import { NewSession } from "../parts/newsession";
import { Command, Empty, Loaded, Section } from "../parts/layout";
import { type Column, Table } from "../parts/table";
import { Time } from "../parts/time";
import { SessionNav } from "../parts/timeslot";
import { Verb } from "../parts/verb";
import { call } from "../request";
import { go } from "../router";
import { may } from "../login";
import { replayed, useAnswer } from "../stream";

const changing = () => may("put-template") && replayed.value === undefined;

// TemplatesPage lists the templates of sessions.
export function TemplatesPage() {
  const templates = useAnswer("list-templates");
  return (
    <>
      <h1>Templates</h1>
      <SessionNav at="/templates" />
      <p>A session of a template takes a name, a timeslot and values for its parameters.</p>
      {changing() && <details class="make"><summary>New template…</summary><Put document="" /></details>}
      <Loaded of={templates}>
        {(all) => (all.items ?? []).length === 0 ? <Empty>There is no template yet. Somebody makes one here, or with <Command line="steady session template put -f FILE" /></Empty> : <Table label="Templates" columns={columns} rows={all.items!} id={(t) => t.name} />}
      </Loaded>
      <p class="same">What the sessions of one owner may take: <Command line="steady session quota list" /> <Command line="steady session quota set OWNER --sessions 3" /></p>
    </>
  );
}

const columns: Column<SessionTemplate>[] = [
  { name: "Template", show: (t) => <a href={`/templates/${t.name}`}>{t.name}</a> },
  { name: "Parameters", show: (t) => (t.parameters ?? []).map((p) => p.name).join(", ") },
  { name: "Owner", show: (t) => t.owner, narrow: true },
  { name: "Set", show: (t) => <Time at={Date.parse(t.updated)} />, narrow: true },
  { name: "Description", show: (t) => t.description },
];

// TemplatePage is one template: a form for sessions of it, and its document.
export function TemplatePage({ name }: { name: string }) {
  const template = useAnswer("show-template", { name });
  return (
    <>
      <h1>Template {name}</h1>
      <Loaded of={template}>
        {(t) => (
          <>
            <p>{t.description} <span class="dim">Of {t.owner}, set <Time at={Date.parse(t.updated)} /></span></p>
            {may("create-session") && replayed.value === undefined
              ? <Section title="New session"><NewSession key={JSON.stringify(t.parameters)} template={t} /></Section>
              : <Section title="Parameters"><p>{(t.parameters ?? []).map((p) => `${p.name} (${p.type})`).join(", ") || "none"}</p></Section>}
            <Section title="Document">
              {changing() ? <Put of={name} document={t.document ?? ""} version={t.version} /> : <pre tabIndex={0}>{t.document}</pre>}
              <div class="verbs" role="group" aria-label="Verbs">
                <Verb operation="remove-template" label="Remove" parts={{ name }} noReason danger what="Sessions that were made of it stay." done={() => go("/templates")} line={() => `steady session template remove ${name}`} />
              </div>
            </Section>
          </>
        )}
      </Loaded>
    </>
  );
}

// nameIn is the name that a template gives itself.
async function nameIn(yaml: string): Promise<string> {
  const { value } = await call("convert-yaml", {}, { yaml });
  const name = (value as { name?: unknown } | null | undefined)?.name;
  if (typeof name !== "string" || name === "") throw new Error("the document has no name: it begins with one, such as name: lab");
  return name;
}

// Put sets a template from its document, new or again.
function Put({ of, document, version }: { of?: string; document: string; version?: number }) {
  const [text, setText] = useState(document);
  const [base, setBase] = useState({ document, version }); // what the text was made of
  useEffect(() => {
    if (text !== base.document) return; // a draft stays, and is refused if the template is another one now
    setText(document);
    setBase({ document, version });
  }, [document, version]);
  const send = async () => {
    const name = await nameIn(text);
    await call("put-template", { name }, { document: text, ...(name === of && { version: base.version }) });
    setBase({ document: text, version: base.version });
    go(`/templates/${name}`);
  };
  return (
    <>
      <div class="field">
        <label for="document">Template (YAML)</label>
        <textarea id="document" value={text} rows={Math.min(30, Math.max(8, text.split("\n").length))} spellcheck={false} onInput={(e) => setText(e.currentTarget.value)} />
      </div>
      {text !== base.document && (
        <div class="verbs">
          <Verb operation="put-template" label="Put" noReason what="Whoever set a template first owns it. Sessions that were made of it stay as they are." send={send} line={() => "steady session template put -f FILE"} />
        </div>
      )}
    </>
  );
}
