import type { Session, SessionTimeslot } from "../api";
import { now } from "../stream";
import { absolute } from "./time";

// Slot is a timeslot in milliseconds since 1970.
export interface Slot {
  provision: number;
  start: number;
  end: number;
  cleanup: number;
}

export const slotOf = (t: SessionTimeslot): Slot => ({ provision: Date.parse(t.provisionAt), start: Date.parse(t.start), end: Date.parse(t.end), cleanup: Date.parse(t.cleanupDeadline) });

// placed is where a time from one instant to another lies between two, for a style; nothing if it
// is beside them.
export function placed(from: number, to: number, low: number, high: number): { left: string; width: string } | undefined {
  const left = Math.max(from, low), right = Math.min(to, high);
  if (right < left || left >= high || right < low) return undefined;
  const share = (ms: number) => `${((100 * ms) / (high - low)).toFixed(3)}%`;
  return { left: share(left - low), width: share(right - left) };
}

// Bands is a timeslot between two instants: coming up, cleaning up, and now. What stands between its
// start and its end is the caller's.
export function Bands({ slot, low, high }: { slot: Slot; low: number; high: number }) {
  const band = (name: string, from: number, to: number) => {
    const style = to > from ? placed(from, to, low, high) : undefined;
    return style && <span class={name} style={style} />;
  };
  return <>{band("up", slot.provision, slot.start)}{band("down", slot.end, slot.cleanup)}</>;
}

// Now is a line at this moment, where it is between two instants.
export function Now({ low, high }: { low: number; high: number }) {
  const style = placed(now.value, now.value, low, high);
  return style ? <i class="now" style={{ left: style.left }} /> : null;
}

// TimeslotBar is a timeslot as a picture, and in words.
export function TimeslotBar({ slot }: { slot: Slot }) {
  const { provision, start, end, cleanup } = slot;
  const said = `Comes up ${absolute(provision)}, starts ${absolute(start)}, ends ${absolute(end)}, gone by ${absolute(cleanup)}; it is ${absolute(now.value)}`;
  return (
    <div class="track" role="img" aria-label={said}>
      <Bands slot={slot} low={provision} high={cleanup} />
      <span class="runs" style={placed(start, end, provision, cleanup)} />
      <Now low={provision} high={cleanup} />
    </div>
  );
}

// hostsOf are the hosts that a session has booked, each once.
export const hostsOf = (s: Session): string[] => [...new Set((s.parts ?? []).flatMap((p) => p.pods ?? []).flatMap((p) => (p.host ? [p.host] : [])))].sort();

const kin: [string, string][] = [["Sessions", "/sessions"], ["Calendar", "/calendar"], ["Templates", "/templates"]];

// SessionNav leads from one of the pages about all sessions to the others.
export function SessionNav({ at }: { at: string }) {
  return (
    <nav class="kinds" aria-label="Of sessions">
      {kin.map(([name, to]) => <a key={to} href={to} aria-current={to === at ? "page" : undefined}>{name}</a>)}
    </nav>
  );
}
