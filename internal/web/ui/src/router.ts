import { signal } from "@preact/signals";

// here is the address; one that begins with two slashes would be that of another site as a link.
const here = () => location.pathname.replace(/^\/+/, "/") + location.search;

// url is what the address bar has, from the first slash on.
export const url = signal(here());

// kept are the parameters that go along from page to page: the moment that is replayed, and what
// was asked to be otherwise.
export const kept = ["at", "drop", "delay", "policy", "budget", "after", "record", "rerun"];

const rest = 200; // milliseconds: browsers refuse an address that changes with every move of a slider
let writing: ReturnType<typeof setTimeout> | undefined;

// write has the address bar follow url.
function write() {
  clearTimeout(writing);
  if (url.value !== here()) history.replaceState(null, "", url.value);
}

// keep changes parameters of the address without a step in the history of the browser.
export function keep(change: Parameters) {
  url.value = withParameters(change);
  clearTimeout(writing);
  writing = setTimeout(write, rest);
}

addEventListener("popstate", () => {
  clearTimeout(writing);
  url.value = here();
});

// go opens a page of this app.
export function go(to: string, replace = false) {
  write();
  const next = new URL(to, location.origin);
  for (const name of kept) {
    if (!next.searchParams.has(name)) parameters(name).forEach((v) => next.searchParams.append(name, v));
  }
  if (next.pathname + next.search === here()) return;
  history[replace ? "replaceState" : "pushState"](null, "", next.pathname + next.search);
  url.value = here();
  if (!replace) scrollTo(0, 0);
}

// Links within the app need no request.
addEventListener("click", (e) => {
  const a = (e.target as Element).closest?.("a");
  if (!a || e.defaultPrevented || e.button !== 0 || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey) return;
  if (a.origin !== location.origin || a.target || a.hasAttribute("download") || a.pathname.startsWith("/v1/")) return;
  e.preventDefault();
  go(a.pathname + a.search);
});

// parameters are all values of one of the query.
export const parameters = (name: string): string[] => new URLSearchParams(url.value.split("?")[1]).getAll(name);

// parameter is the first of them, or "".
export const parameter = (name: string): string => parameters(name)[0] ?? "";

// Parameters are values of the query by name; "" and an empty list remove it.
export type Parameters = Record<string, string | string[]>;

// withParameters is this page's address with some of the query changed.
export function withParameters(change: Parameters): string {
  const [path, query] = url.value.split("?") as [string, string?];
  const q = new URLSearchParams(query);
  for (const [k, v] of Object.entries(change)) {
    q.delete(k);
    [v].flat().forEach((x) => x !== "" && q.append(k, x));
  }
  const text = q.toString();
  return text ? `${path}?${text}` : path;
}

// changes are the parameters of the address that change a replay, by their names in the API and as flags.
export const changes = ["drop", "delay", "policy", "budget"] as const;
export type Change = (typeof changes)[number];

// asksWhatIf reports whether the address has one.
export const asksWhatIf = () => changes.some((k) => parameters(k).length > 0);
