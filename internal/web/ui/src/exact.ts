// JSON in which every number stays as it is written.

// Exact is a number of which JavaScript would make another one, such as 9007199254740993 or 1.0.
export class Exact {
  constructor(readonly literal: string) {}
  toString() {
    return this.literal;
  }
  valueOf() {
    return Number(this.literal);
  }
}

// literal is a number of JSON (RFC 8259 section 6).
const literal = /^-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?$/;

// numberOf reads a number, and undefined where a text is none.
export function numberOf(text: string): number | Exact | undefined {
  if (!literal.test(text)) return undefined;
  return String(Number(text)) === text ? Number(text) : new Exact(text);
}

// mark begins a text that stands for a number while the browser's own JSON is at work. No document has it:
// it is drawn with each page.
const mark = `exact ${Math.random()} `;
const marked = new RegExp(`"${mark.replaceAll(".", "\\.")}([^"]*)"`, "g");
const tokens = /"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g;
const suspect = /\d{16}|\.\d*0(?!\d)|\d[eE]|-0(?!\d)|\.\d{15}/; // few documents have such a number

// parse reads JSON, or throws.
export function parse(text: string): unknown {
  if (!suspect.test(text)) return JSON.parse(text);
  const kept = text.replace(tokens, (t) => (t[0] === '"' || typeof numberOf(t) !== "object" ? t : `"${mark}${t}"`));
  return JSON.parse(kept, (_, v) => (typeof v === "string" && v.startsWith(mark) ? new Exact(v.slice(mark.length)) : v));
}

// stringify writes what parse reads.
export const stringify = (v: unknown, indent?: number): string => JSON.stringify(v, (_, x) => (x instanceof Exact ? mark + x.literal : x), indent)?.replace(marked, "$1");

// parsed is what a text means: a value that is no JSON is a text.
export function parsed(text: string): unknown {
  try {
    return parse(text);
  } catch {
    return text;
  }
}
