import { now } from "../stream";

const units: [number, string][] = [[86_400_000, "d"], [3_600_000, "h"], [60_000, "min"], [1000, "s"]];

// span is a duration in at most two units: "3 min 20 s".
export function span(ms: number): string {
  const parts: string[] = [];
  let left = Math.max(0, Math.round(ms / 1000) * 1000);
  for (const [size, name] of units) {
    if (left >= size && parts.length < 2) parts.push(`${Math.floor(left / size)} ${name}`);
    left %= size;
    if (parts.length === 1 && size <= 60_000 && ms >= 600_000) break;
  }
  return parts.join(" ") || "0 s";
}

// absolute is an instant on the clock of UTC.
export const absolute = (at: number) => new Date(at).toISOString().replace("T", " ").replace(/\.\d+Z$/, " UTC");

// bytes is a size in the largest unit of which there is one at least.
export function bytes(n: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const unit = Math.min(units.length - 1, Math.max(0, Math.floor(Math.log2(Math.max(1, n)) / 10)));
  return `${unit === 0 ? n : (n / 2 ** (10 * unit)).toFixed(1)} ${units[unit]}`;
}

// Time is an instant as "3 min ago" or "in 2 h", with the instant itself on hover.
export function Time({ at }: { at: number | undefined }) {
  if (!at) return <span class="dim">never</span>;
  const off = at - now.value;
  const text = Math.abs(off) < 1500 ? "now" : off < 0 ? `${span(-off)} ago` : `in ${span(off)}`;
  return <time dateTime={new Date(at).toISOString()} title={absolute(at)}>{text}</time>;
}

// Countdown is how long it is until an instant; what it says at the end is given.
export function Countdown({ until, over }: { until: number; over: string }) {
  const left = until - now.value;
  return <time dateTime={new Date(until).toISOString()} title={absolute(until)}>{left > 0 ? `${span(left)} left` : over}</time>;
}
