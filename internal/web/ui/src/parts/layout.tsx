import type { ComponentChildren } from "preact";
import { type Answered, unkept } from "../stream";

// Section is a part of a page under its own heading.
export function Section({ title, aside, children }: { title: string; aside?: ComponentChildren; children: ComponentChildren }) {
  const id = "s-" + title.toLowerCase().replace(/\W+/g, "-");
  return (
    <section aria-labelledby={id}>
      <header class="section">
        <h2 id={id}>{title}</h2>
        {aside}
      </header>
      {children}
    </section>
  );
}

// Empty says what to do first where there is nothing yet.
export function Empty({ children }: { children: ComponentChildren }) {
  return <p class="empty">{children}</p>;
}

// Loaded renders an answer, or that it is on its way, or why there is none.
export function Loaded<T>({ of, children }: { of: Answered<T>; children: (value: T) => ComponentChildren }) {
  if (of.error?.status === unkept) return <Empty>{of.error.detail}</Empty>;
  if (of.error) return <p role="alert" class="error">{of.error.detail}</p>;
  if (of.value === undefined) return <p class="dim" aria-busy="true">Loading…</p>;
  return <>{children(of.value)}</>;
}

// Command is a line for the shell, with a button that copies it.
export function Command({ line }: { line: string }) {
  return (
    <span class="command">
      <code>{line}</code>
      <Copy text={line} />
    </span>
  );
}

// Copy is a button that copies a text.
export function Copy({ text }: { text: string }) {
  return <button type="button" aria-label={`Copy: ${text}`} onClick={() => navigator.clipboard?.writeText(text)}>Copy</button>;
}

// Bar shows shares of a whole, each with its word and number.
export function Bar({ label, parts }: { label: string; parts: { word: string; tone: string; count: number }[] }) {
  const all = parts.reduce((n, p) => n + p.count, 0) || 1;
  const said = parts.filter((p) => p.count > 0).map((p) => `${p.count} ${p.word}`).join(", ");
  return (
    <div class="bar" role="img" aria-label={`${label}: ${said || "none"}`}>
      {parts.filter((p) => p.count > 0).map((p) => <span key={p.word} class={p.tone} style={{ flexGrow: p.count / all }} title={`${p.count} ${p.word}`} />)}
    </div>
  );
}

// Gauge is how much of a bound is used.
export function Gauge({ label, used, most }: { label: string; used: number; most: number }) {
  return (
    <label class="gauge">
      <span>{label}</span>
      <meter min={0} max={Math.max(most, used, 1)} value={used} />
      <span class="number">{used} of {most}</span>
    </label>
  );
}
