import { type ReadonlySignal, batch, computed, effect, signal } from "@preact/signals";
import { useLayoutEffect, useMemo } from "preact/hooks";
import { type Answers, routes } from "./api";
import { parse } from "./exact";
import { type Operation, type Query, Refused, call, pathOf, request } from "./request";
import { keep, kept, parameter } from "./router";

// The one event stream of the tab. A topic is a GET route of the operator API, given
// without this prefix: what a page shows is what the route answers.
const prefix = "/v1/operator";

// A tab that is hidden for this long has no stream, in milliseconds.
const hiddenFor = 30_000;
// The server is not heard of for this long before the connection counts as lost.
const silentFor = 12_000;

export interface Answered<T> {
  value?: T;
  seq: number;
  error?: { status: number; detail: string };
}

export interface Frame {
  topic: string;
  seq: number;
  whole?: boolean;
  set?: Record<string, unknown>;
  splice?: Record<string, [number, string][]>;
  drop?: string[];
  error?: { status: number; detail: string };
}

interface Topic {
  users: number;
  timeless: boolean; // it is no state of the fleet, and the same whatever moment is replayed
  coming: boolean; // a component that uses it was rendered, and has not said so yet
  answered: ReturnType<typeof signal<Answered<unknown>>>;
}

const topics = new Map<string, Topic>();

// connection says whether what the page shows is of now.
export const connection = signal<"opening" | "live" | "lost">("opening");
// seq is a record of the log up to which all that the page shows is known.
export const seq = signal(0);
// replayed is the record whose state the page shows instead of today's.
export const replayed = computed(() => (/^[1-9]\d{0,15}$/.test(parameter("at")) ? Number(parameter("at")) : undefined));
// replay shows the state of a record, or without one that of now.
export const replay = (record?: number) => keep(record === undefined ? Object.fromEntries(kept.map((name) => [name, ""])) : { at: String(record) });
// instant is when the record was that is replayed, once that is known.
export const instant = signal<number | undefined>(undefined);
const clock = signal(Date.now());
// now is the server's clock, to the second, in milliseconds since 1970; while a moment is
// replayed, that of the moment.
export const now = computed(() => (replayed.value === undefined ? clock.value : instant.value ?? clock.value));

let ahead = 0; // of the server's clock to that of the browser
setInterval(() => {
  if (!document.hidden) clock.value = Date.now() + ahead;
}, 1000);

// apply returns a topic's answer after a frame.
export function apply(was: Answered<unknown>, f: Frame): Answered<unknown> {
  if (f.error) return { seq: f.seq, error: f.error };
  if (!f.whole && was.value === undefined) return was; // of an answer that nobody looks at any more
  const value: Record<string, unknown> = f.whole ? {} : { ...(was.value as object) };
  for (const key of f.drop ?? []) delete value[key];
  Object.assign(value, f.set);
  for (const [key, edits] of Object.entries(f.splice ?? {})) {
    let text = value[key] as string;
    for (const [at, by] of edits) text = text.slice(0, at) + by + text.slice(at + by.length);
    value[key] = text;
  }
  return { seq: f.seq, value };
}

let source: EventSource | undefined;
let id = "";
let asked = ""; // the topics that the stream was last asked for
let heard = 0;

const wanted = () => [...topics].filter(([, t]) => (t.users > 0 || t.coming) && (t.timeless || replayed.value === undefined)).map(([path]) => path).sort();

// settled forgets the topics that the server does not send any more. Until then they stay: who comes
// back to one has what it was, and what changes.
function settled() {
  const list = asked.split("\n");
  for (const [path, t] of topics) {
    if (t.users === 0 && !t.coming && !list.includes(path)) topics.delete(path);
  }
}

function open() {
  close();
  const list = wanted();
  asked = list.join("\n");
  settled();
  if (list.length === 0) return;
  const s = new EventSource(pathOf("stream-topics", {}, { topic: list }));
  source = s;
  heard = Date.now();
  s.addEventListener("stream", (e) => {
    id = JSON.parse(e.data).id;
    asked = list.join("\n"); // a browser connects anew with the address that it has
    hear();
    ask();
  });
  s.addEventListener("beat", (e) => {
    const beat = JSON.parse(e.data);
    ahead = beat.now - Date.now();
    hear();
    requestAnimationFrame(() => {
      show();
      seq.value = Math.max(seq.value, beat.seq);
    });
  });
  s.addEventListener("topic", (e) => {
    hear();
    const f = parse(e.data) as Frame;
    const waited = topics.get(f.topic)?.answered.peek()?.seq === 0;
    if (frames.push(f) === 1 && !waited) requestAnimationFrame(show);
    if (waited) show(); // the first answer: somebody waits for it
  });
  s.onerror = () => {
    connection.value = "lost";
    id = "";
    if (s.readyState === EventSource.CLOSED && source === s) retry();
  };
}

function close() {
  source?.close();
  source = undefined;
  id = "";
}

let retrying: ReturnType<typeof setTimeout> | undefined;

// retry opens the stream anew where the browser gave up, or the login ended.
function retry() {
  clearTimeout(retrying);
  retrying = setTimeout(() => {
    call("me").then(open, (e) => {
      if (e instanceof Refused && e.status === 401) signedOut.value++;
      else retry();
    });
  }, 1000 + Math.random() * 1000);
}

// signedOut counts how often the server said that the login is over.
export const signedOut = signal(0);

function hear() {
  heard = Date.now();
  connection.value = "live";
}

let frames: Frame[] = [];

// show applies what came since the last picture.
function show() {
  const came = frames;
  frames = [];
  batch(() => {
    for (const f of came) {
      const t = topics.get(f.topic);
      if (t) t.answered.value = apply(t.answered.value!, f);
    }
  });
}

let asking = false;
let telling = ""; // the stream that is being told its topics

// ask tells the server which topics the tab has now, one request after the other: they might
// overtake each other.
function ask() {
  if (asking) return;
  asking = true;
  queueMicrotask(() => {
    asking = false;
    const list = wanted();
    if (!source) return open();
    if (id === "" || telling === id || list.join("\n") === asked) return;
    asked = list.join("\n");
    if (list.length === 0) {
      settled();
      return close();
    }
    const to = (telling = id);
    call("set-topics", { id }, { topics: list }).then(settled, () => to === id && open()).finally(() => {
      if (telling === to) telling = "";
      ask();
    });
  });
}

setInterval(() => {
  if (source && Date.now() - heard > silentFor) {
    connection.value = "lost";
    open();
  }
}, 2000);

let hiding: ReturnType<typeof setTimeout> | undefined;
document.addEventListener("visibilitychange", () => {
  clearTimeout(hiding);
  if (document.hidden) hiding = setTimeout(close, hiddenFor);
  else if (!source) open();
});

effect(() => {
  replayed.value; // what is of the past is not followed
  ask();
});

// unkept is the status of what a server does not know of the past: resources, measurements, …
export const unkept = 410;

// past fetches what a topic was at a record, until nobody asks for that record any more. One that
// names a record itself is of that.
async function past(path: string, at: number, known: boolean, over: AbortSignal): Promise<Answered<unknown>> {
  if (!known) return { seq: at, error: { status: unkept, detail: "What this was then is not in the log." } };
  try {
    const moment = /[?&]at=/.test(path) ? "" : `${path.includes("?") ? "&" : "?"}at=${at}`;
    const value = await request<unknown>("GET", `${prefix}${path}${moment}`, undefined, over);
    return { seq: at, value: Array.isArray(value) ? { items: value } : value };
  } catch (e) {
    return { seq: at, error: { status: e instanceof Refused ? e.status : 0, detail: String((e as Error).message) } };
  }
}

// useTopic is what a route answers, for as long as the component is there. An answer
// that is a list has it as items. Known says whether the route answers about the past, and
// timeless that its answer is of no moment.
export function useTopic<T>(path: string, known: boolean, timeless = false): ReadonlySignal<Answered<T>> {
  const pasts = useMemo(() => signal<Answered<T> | undefined>(undefined), [path]);
  const live = useMemo(() => {
    const t = topics.get(path) ?? { users: 0, timeless, coming: true, answered: signal<Answered<unknown>>({ seq: 0 }) };
    t.coming = true;
    topics.set(path, t);
    return t;
  }, [path]);
  useLayoutEffect(() => { // the topic is asked for before the page without its answer is painted
    live.users++;
    live.coming = false;
    ask();
    const stop = effect(() => {
      const at = replayed.value, over = new AbortController();
      if (at === undefined || timeless) pasts.value = undefined;
      else past(path, at, known, over.signal).then((a) => over.signal.aborted || (pasts.value = a as Answered<T>));
      return () => over.abort();
    });
    return () => {
      stop();
      live.users--;
      ask();
    };
  }, [path]);
  return useMemo(() => computed(() => pasts.value ?? (live.answered.value as Answered<T>)), [path]);
}

// Held is an answer as a topic has it: a list is its items.
export type Held<T> = [T] extends [(infer E)[] | null] ? { items: E[] | null } : T;

// useAnswer is what an operation of the API answers now, and from then on.
export function useAnswer<I extends Operation>(id: I, parts?: Record<string, string>, query?: Query): Answered<Held<Answers[I]>> {
  return useTopic<Held<Answers[I]>>(pathOf(id, parts, query).slice(prefix.length), !!routes[id][2], id === "get-forecast").value;
}
