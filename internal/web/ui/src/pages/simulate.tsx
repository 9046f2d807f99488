import { useEffect, useState } from "preact/hooks";
import type { NewForecast } from "../api";
import { Forecast, Played, type Report } from "../parts/forecast";
import { Command, Empty, Section } from "../parts/layout";
import { call } from "../request";
import { keep, parameter } from "../router";
import { may } from "../login";
import { instant, replayed, useAnswer } from "../stream";

// A Slider is one assumption: its name in the address, in the API and on the command line.
interface Slider {
  name: "failure" | "offline" | "times";
  label: string;
  min: number;
  max: number;
  step: number;
  usual: number;
  show: (v: number) => string;
}

const percent = (v: number) => `${Math.round(v * 100)} %`;

const sliders: Slider[] = [
  { name: "failure", label: "An activation fails", min: 0, max: 1, step: 0.01, usual: 0.01, show: percent },
  { name: "offline", label: "A host is away", min: 0, max: 1, step: 0.01, usual: 0, show: percent },
  { name: "times", label: "An activation takes", min: 0.25, max: 10, step: 0.25, usual: 1, show: (v) => `${v} times the usual` },
];

const settle = 400; // milliseconds after the last move of a slider

// SimulatePage plays the fleet ahead from where it is, or from where it was. Its address has all settings.
export function SimulatePage() {
  const status = useAnswer("status").value;
  const at = replayed.value;
  const rollouts = useAnswer("list-rollouts").value?.items ?? [];
  const [release, setRelease] = useState<string>();
  const [id, setID] = useState("");
  const [error, setError] = useState("");
  const value = (s: Slider) => (parameter(s.name) === "" ? s.usual : Number(parameter(s.name)));
  const asked: NewForecast = { ...Object.fromEntries(sliders.map((s) => [s.name, value(s)])), rollout: parameter("rollout"), ...(release ? { release } : {}), ...(at && instant.value ? { record: at, start: instant.value } : {}) };
  const key = JSON.stringify(asked);
  useEffect(() => {
    if (!may("create-forecast") || (at && !asked.record)) return;
    const wait = setTimeout(() => {
      setError("");
      call("create-forecast", {}, asked).then((f) => setID(f.id), (e: Error) => setError(e.message));
    }, settle);
    return () => clearTimeout(wait);
  }, [key, at]);
  const read = async (e: Event) => {
    const file = (e.target as HTMLInputElement).files?.[0];
    if (!file) return setRelease(undefined);
    const bytes = new Uint8Array(await file.arrayBuffer());
    let text = "";
    for (let i = 0; i < bytes.length; i += 0x8000) text += String.fromCharCode(...bytes.subarray(i, i + 0x8000));
    setRelease(btoa(text));
  };
  const line = `steady release simulate${release ? " --live" : " --accepted"}${parameter("rollout") ? ` --rollout ${parameter("rollout")}` : ""} --failure-rate ${Math.round(value(sliders[0]!) * 100)}% --offline ${Math.round(value(sliders[1]!) * 100)}%`;
  return (
    <>
      <h1>Simulate</h1>
      <p class="dim">Played ahead from {at ? `where the fleet was with record ${at}` : `what the server has now${status ? `, record ${status.seq}` : ""}`}: nothing here changes the fleet.</p>
      {!may("create-forecast") && <Empty>This needs the role releaser.</Empty>}
      <div class="filters">
        {sliders.map((s) => (
          <label key={s.name}>
            {s.label}: {s.show(value(s))}
            <input type="range" min={s.min} max={s.max} step={s.step} value={value(s)} aria-valuetext={s.show(value(s))} onInput={(e) => keep({ [s.name]: e.currentTarget.value })} />
          </label>
        ))}
        <label>What counts <select value={parameter("rollout")} onChange={(e) => keep({ rollout: e.currentTarget.value })}>
          <option value="">every rollout</option>
          {rollouts.filter((r) => !r.endedAt).map((r) => <option key={r.name} value={r.name}>{r.name}</option>)}
        </select></label>
        <label>A packed release <input type="file" accept=".tar" onChange={read} /></label>
      </div>
      {!at && <p class="same">The same from the shell: <Command line={line} /></p>}
      {error && <p role="alert" class="error">{error}</p>}
      {id && <Section title="How it would go"><Played<Report> id={id} of="runs">
        {(found) => found.rollouts?.length ? <Forecast report={found} /> : <Empty>Nothing would happen: no rollout is open or waits. Choose a packed release.</Empty>}
      </Played></Section>}
    </>
  );
}
