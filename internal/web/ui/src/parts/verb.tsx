import { useId, useRef, useState } from "preact/hooks";
import { type Operation, call } from "../request";
import { may } from "../login";
import { replayed } from "../stream";
import { say } from "./toast";
import { Command } from "./layout";

// Field is what a verb asks for besides its reason.
export interface Field {
  name: string;
  label: string;
  type?: "text" | "number" | "checkbox" | "select";
  options?: string[];
  value?: string;
  required?: boolean;
  // after shows the field once the server has refused in words like these.
  after?: RegExp;
}

export interface VerbOf {
  operation: Operation;
  label: string; // the command line's word
  parts?: Record<string, string>;
  fields?: Field[];
  // named are the parts of the path that the fields give.
  named?: (given: Record<string, string>) => Record<string, string>;
  // body is what is sent; by default the reason and the fields by their names.
  body?: (given: Record<string, string>) => unknown;
  query?: (given: Record<string, string>) => Record<string, string>;
  // send does what one call does not; by default the operation is called.
  send?: (given: Record<string, string>) => Promise<unknown>;
  done?: () => void;
  noReason?: boolean;
  danger?: boolean;
  // line is the command that does the same.
  line: (given: Record<string, string>) => string;
  what?: string; // happens then, in a sentence
}

// quoted is a word for the shell.
export const quoted = (s: string) => (/^[\w@./:=-]+$/.test(s) ? s : `'${s.replaceAll("'", `'\\''`)}'`);

// because is the part of a command line that gives the reason.
export const because = (given: Record<string, string>) => ` --reason ${quoted(given.reason || "…")}`;

// Verb is a button for what a person may decide, with the command that does the same.
// Who may not, and who looks at the past, sees none.
export function Verb(v: VerbOf) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [given, setGiven] = useState<Record<string, string>>({});
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const key = useId();
  if (!may(v.operation) || replayed.value !== undefined) return null;
  const initial = Object.fromEntries((v.fields ?? []).map((f) => [f.name, f.value ?? ""]));
  const all = { ...initial, ...given };
  const open = () => {
    setGiven({});
    setError("");
    dialog.current!.showModal();
  };
  const submit = async (e: Event) => {
    e.preventDefault();
    setBusy(true);
    try {
      const { reason, ...rest } = all;
      const body = v.body ? v.body(all) : v.noReason ? undefined : { reason, ...rest };
      await (v.send ? v.send(all) : call(v.operation, { ...v.parts, ...v.named?.(all) }, body, v.query?.(all)));
      dialog.current?.close(); // what it was about may be gone already
      say(`${v.label}: done`);
      v.done?.();
    } catch (e) {
      setError((e as Error).message);
    } finally {
      setBusy(false);
    }
  };
  const input = (name: string) => (e: Event) => {
    const t = e.target as HTMLInputElement;
    setGiven({ ...given, [name]: t.type === "checkbox" ? (t.checked ? "true" : "") : t.value });
  };
  const about = Object.entries(v.parts ?? {}).filter(([part]) => part !== "verb").map(([, name]) => name); // the label is the verb
  return (
    <>
      <button type="button" class={v.danger ? "danger" : ""} onClick={open} data-verb={v.operation}>{v.label}</button>
      <dialog ref={dialog} aria-labelledby={key} class="verb">
        <form onSubmit={submit}>
          <h2 id={key}>{[v.label, ...about].join(" ")}</h2>
          {v.what && <p>{v.what}</p>}
          {(v.fields ?? []).filter((f) => !f.after || f.after.test(error) || given[f.name]).map((f) => (
            <label key={f.name} class={f.type === "checkbox" ? "check" : ""}>
              <span>{f.label}</span>
              {f.type === "select"
                ? <select name={f.name} value={all[f.name]} onChange={input(f.name)}>{f.options!.map((o) => <option key={o} value={o}>{o}</option>)}</select>
                : f.type === "checkbox"
                  ? <input name={f.name} type="checkbox" checked={all[f.name] === "true"} onInput={input(f.name)} />
                  : <input name={f.name} inputMode={f.type === "number" ? "decimal" : "text"} value={all[f.name]} required={f.required} onInput={input(f.name)} />}
            </label>
          ))}
          {!v.noReason && (
            <label>
              <span>Reason, for the log</span>
              <input name="reason" required maxLength={1000} value={all.reason ?? ""} onInput={input("reason")} autofocus />
            </label>
          )}
          <p class="same">The same from the shell:</p>
          <Command line={v.line(all)} />
          {error && <p role="alert" class="error">{error}</p>}
          <div class="actions">
            <button type="button" onClick={() => dialog.current!.close()}>Back</button>
            <button type="submit" class={v.danger ? "danger" : "primary"} disabled={busy}>{v.label}</button>
          </div>
        </form>
      </dialog>
    </>
  );
}
