import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { call } from "../request";
import { go } from "../router";
import { objectAt, titleOf } from "../words";

// A Choice is one line of the palette.
export interface Choice {
  text: string;
  to: string | (() => void);
}

export const opened = signal(false);

// pages are those of the navigation, by the key that opens them behind g.
export const pages: [string, string, string][] = [
  ["f", "Fleet", "/"],
  ["a", "Attention", "/attention"],
  ["r", "Rollouts", "/rollouts"],
  ["h", "Hosts", "/hosts"],
  ["w", "Workspaces", "/workspaces"],
  ["n", "Nodes", "/nodes"],
  ["o", "Flows", "/config/flow"],
  ["t", "Sessions", "/sessions"],
  ["e", "Release", "/release"],
  ["i", "Simulate", "/simulate"],
  ["l", "Log", "/log"],
  ["s", "Settings", "/settings"],
];

let g = 0; // when the key g was pressed last

addEventListener("keydown", (e) => {
  const typing = (e.target as Element).matches?.("input, textarea, select, [contenteditable], .xterm *");
  if (e.key === "k" && (e.metaKey || e.ctrlKey)) {
    e.preventDefault();
    opened.value = !opened.value;
    return;
  }
  if (typing || e.metaKey || e.ctrlKey || e.altKey || document.querySelector("dialog[open]")) return;
  if (e.key === "/") {
    e.preventDefault();
    opened.value = true;
  } else if (e.key === "g") {
    g = e.timeStamp;
  } else if (e.timeStamp - g < 1500) {
    g = 0;
    const page = pages.find(([key]) => key === e.key);
    if (page) go(page[2]);
  }
});

const enough = 8;

// find lists what a text may mean: pages, rollouts, hosts, nodes and what they have, sessions.
async function find(text: string): Promise<Choice[]> {
  const here: Choice[] = pages.filter(([, name]) => name.toLowerCase().includes(text.toLowerCase())).map(([key, name, to]) => ({ text: `${name} (g ${key})`, to }));
  if (!text) return here;
  const asked = { search: text, limit: String(enough) };
  const some = <T,>(page: Promise<{ items: T[] | null }>) => page.then((p) => p.items ?? [], () => []);
  const [hosts, rollouts, nodes, sessions, objects] = await Promise.all([
    some(call("page-hosts", {}, undefined, asked)),
    call("list-rollouts").catch(() => null),
    some(call("page-nodes", {}, undefined, asked)),
    some(call("page-sessions", {}, undefined, asked)),
    some(call("page-all-objects", {}, undefined, asked)),
  ]);
  return [
    ...here,
    ...(rollouts ?? []).filter((r) => r.name.includes(text)).slice(0, enough).map((r) => ({ text: `Rollout ${r.name}`, to: `/rollouts/${r.name}` })),
    ...hosts.map((h) => ({ text: `Host ${h.name}`, to: `/hosts/${h.name}` })),
    ...nodes.map((n) => ({ text: `Node ${n.name}`, to: `/nodes/${n.name}` })),
    ...sessions.map((s) => ({ text: `Session ${s.name}`, to: `/sessions/${s.name}` })),
    ...objects.map((o) => ({ text: `${titleOf(o.kind)} ${o.name}${o.local ? ` of node ${o.legs![0]!.node}` : ""}`, to: objectAt(o) })),
  ];
}

// Palette finds a page, a rollout, a host, a node or what nodes have, or a session by some of its name.
export function Palette() {
  const dialog = useRef<HTMLDialogElement>(null);
  const [text, setText] = useState("");
  const [choices, setChoices] = useState<Choice[]>([]);
  const [at, setAt] = useState(0);
  const known = useRef<string | undefined>(undefined); // the text whose choices are shown
  const early = useRef(false); // Enter came before those of what is typed
  const open = opened.value;
  useEffect(() => {
    const d = dialog.current!;
    if (open && !d.open) {
      setText("");
      d.showModal();
    } else if (!open && d.open) d.close();
  }, [open]);
  useEffect(() => {
    let current = true;
    find(text).then((list) => {
      if (current) {
        setChoices(list);
        setAt(0);
        known.current = text;
        if (early.current) choose(list[0]);
      }
    });
    return () => {
      current = false;
    };
  }, [text, open]);
  const choose = (c: Choice | undefined) => {
    early.current = false;
    if (!c) return;
    opened.value = false;
    dialog.current?.close(); // at once: keys that are pressed from now on are of the page
    typeof c.to === "string" ? go(c.to) : c.to();
  };
  const key = (e: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[e.key];
    if (step) {
      e.preventDefault();
      setAt((at + step + choices.length) % Math.max(1, choices.length));
    } else if (e.key === "Enter") {
      e.preventDefault();
      if (known.current === text) choose(choices[at]);
      else early.current = true;
    }
  };
  return (
    <dialog ref={dialog} class="palette" aria-label="Go to" onClose={() => (opened.value = early.current = false)}>
      <input role="combobox" aria-label="Page, rollout, host, node, flow or session" aria-expanded="true" aria-controls="choices" aria-activedescendant={choices[at] ? `choice-${at}` : undefined}
        autocomplete="off" placeholder="Page, rollout, host, node, flow or session" value={text} onInput={(e) => setText(e.currentTarget.value)} onKeyDown={key} />
      <ul id="choices" role="listbox" aria-label="Found">
        {choices.map((c, i) => <li key={c.text} id={`choice-${i}`} role="option" aria-selected={i === at} onClick={() => choose(c)}>{c.text}</li>)}
      </ul>
    </dialog>
  );
}
