import { useEffect, useRef, useState } from "preact/hooks";
import { pathOf } from "../request";

// Frames of a stream: a byte for the type, four for the length, and the content.
export const STDOUT = 1;
export const STDERR = 2;
export const EXIT = 5;

const kept = 2000; // lines on the page
const longest = 8192; // characters of a line; what is longer goes on in the next
const frame = 50; // milliseconds between two pictures
const pause = 1000; // milliseconds until a lost connection is tried again

interface Line {
  text: string;
  loud: boolean;
  open?: boolean; // its end has not come yet
}

// frames reads a stream until it ends.
export async function* frames(body: ReadableStream<Uint8Array>): AsyncGenerator<{ type: number; data: Uint8Array }> {
  const reader = body.getReader();
  let rest = new Uint8Array();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const all = new Uint8Array(rest.length + value.length);
    all.set(rest);
    all.set(value, rest.length);
    let at = 0;
    while (all.length - at >= 5) {
      const size = new DataView(all.buffer, at + 1, 4).getUint32(0);
      if (all.length - at - 5 < size) break;
      yield { type: all[at]!, data: all.subarray(at + 5, at + 5 + size) };
      at += 5 + size;
    }
    rest = all.slice(at);
  }
}

// escapes are sequences for terminals, which are not for a page; the last may not have come whole.
const escapes = /\x1b(?:\[[0-?]*[ -/]*(?:[@-~]|$)|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-_]|$)/g;

// plain is a line as it stands once a terminal has printed it.
function plain(text: string): string {
  const shown = text.replace(escapes, "");
  return shown.slice(shown.lastIndexOf("\r", shown.length - 2) + 1);
}

// Output follows the log of a workspace, or what builds and pulls of an image print.
export function Output({ host, kind, name }: { host: string; kind: string; name: string }) {
  const path = kind === "image"
    ? pathOf("image-output", { host, name }, { follow: "true" })
    : pathOf("workspace-logs", { host, name }, { follow: "true", tail: "200" });
  return <Stream label={`${kind}/${name}`} path={path} />;
}

// Stream shows the lines of a stream from a host for as long as it is open.
export function Stream({ label, path, method = "GET" }: { label: string; path: string; method?: "GET" | "POST" }) {
  const [lines, setLines] = useState<Line[]>([]);
  const [ended, setEnded] = useState("");
  const pre = useRef<HTMLPreElement>(null);
  useEffect(() => {
    const stop = new AbortController();
    let came: Line[] = [];
    let open = "";
    let loud = false; // of what came last
    let news = false;
    const show = setInterval(() => {
      if (!news) return;
      const more = open === "" ? came : [...came, { text: plain(open), loud, open: true }];
      came = [];
      news = false;
      setLines((was) => [...(was.at(-1)?.open ? was.slice(0, -1) : was), ...more].slice(-kept));
    }, frame);
    const follow = async () => {
      const answer = await fetch(path, { method, signal: stop.signal });
      if (!answer.ok || !answer.body) throw new Error((await answer.json().catch(() => undefined))?.detail ?? answer.statusText);
      const text = new TextDecoder();
      for await (const f of frames(answer.body)) {
        if (f.type === EXIT) {
          const exit = JSON.parse(text.decode(f.data));
          return exit.error || "It ended.";
        }
        if (f.type !== STDOUT && f.type !== STDERR) continue;
        loud = f.type === STDERR;
        news = true;
        const parts = (open + text.decode(f.data, { stream: true })).split("\n");
        for (open = parts.pop()!; open.length > longest; open = open.slice(longest)) parts.push(open.slice(0, longest));
        for (const p of parts) came.push({ text: plain(p), loud });
      }
      return "The stream broke off.";
    };
    let again: ReturnType<typeof setTimeout> | undefined;
    const run = () => follow().then(setEnded, (e) => {
      if (stop.signal.aborted) return;
      if (!(e instanceof TypeError) || method !== "GET") return setEnded((e as Error).message);
      setEnded("The connection broke off. It is tried again.");
      again = setTimeout(() => {
        came = [];
        open = "";
        setLines([]);
        setEnded("");
        run();
      }, pause);
    });
    run();
    return () => {
      stop.abort();
      clearTimeout(again);
      clearInterval(show);
      setLines([]);
      setEnded("");
    };
  }, [path, method]);
  useEffect(() => {
    const p = pre.current!;
    if (p.scrollHeight - p.scrollTop - p.clientHeight < 60) p.scrollTop = p.scrollHeight;
  }, [lines]);
  return (
    <div class="output">
      <h3>{label}</h3>
      <pre ref={pre} tabIndex={0} role="log" aria-label={`Output of ${label}`}>{lines.map((l, i) => <div key={i} class={l.loud ? "stderr" : ""}>{l.text || " "}</div>)}</pre>
      {ended && <p class="dim" role="status">{ended}</p>}
    </div>
  );
}
