import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { useAnswer } from "../stream";
import { Empty, Loaded } from "./layout";
import type { Plotted, draw } from "./plot";
import { Time, bytes, span } from "./time";

interface Sample {
  host?: { cpuPermille?: number; memTotalBytes?: number; memAvailableBytes?: number; load1Milli?: number; cpuCount?: number };
  workspaces?: { name: string; cpuPermille?: number; memBytes?: number; memLimitBytes?: number; pids?: number }[];
  gpus?: { name?: string; utilPermille?: number; memUsedBytes?: number; memTotalBytes?: number; temperatureC?: number }[];
}

// Metrics is what a host last measured, and how that went in the last hour: the server keeps a
// number for each minute, and a gap where the host was not heard of.
export function Metrics({ host }: { host: string }) {
  const m = useAnswer("host-metrics", { host });
  const s = m.value?.metrics as Sample | undefined;
  const percent = (n: number | null) => (n === null ? null : n / 10);
  const hour = m.value?.history ?? [];
  const drawn = useMemo<Plotted>(() => ({
    times: hour.map((l) => l.at / 1000),
    series: [["Processor %", hour.map((l) => percent(l.cpu))], ["Memory %", hour.map((l) => percent(l.memory))]],
  }), [m.value?.history]);
  return (
    <Loaded of={m}>
      {(v) => !v.at
        ? <Empty>Nothing since the server started: the host is away, or its metrics are off.</Empty>
        : (
          <>
            <dl class="facts">
              <dt>Measured</dt><dd><Time at={v.at} /></dd>
              <dt>Agent</dt><dd>{v.agentVersion} {v.uptime ? <>up {span(v.uptime * 1000)}</> : null}</dd>
              {s?.host?.cpuPermille !== undefined && <><dt>Processor</dt><dd>{(s.host.cpuPermille / 10).toFixed(1)} % of {s.host.cpuCount ?? "?"} CPUs</dd></>}
              {s?.host?.memTotalBytes && <><dt>Memory</dt><dd>{gib(s.host.memTotalBytes - (s.host.memAvailableBytes ?? 0))} of {gib(s.host.memTotalBytes)}</dd></>}
              {(s?.gpus ?? []).map((g, i) => <><dt key={`t${i}`}>GPU {i}</dt><dd key={i}>{g.name} {g.utilPermille !== undefined ? `${g.utilPermille / 10} %` : ""} {g.memTotalBytes ? `${gib(g.memUsedBytes ?? 0)} of ${gib(g.memTotalBytes)}` : ""} {g.temperatureC !== undefined ? `${g.temperatureC} °C` : ""}</dd></>)}
            </dl>
            {hour.length > 1 && <Plot {...drawn} />}
          </>
        )}
    </Loaded>
  );
}

// WorkspaceMetrics is what a host last measured of one of its workspaces.
export function WorkspaceMetrics({ host, name }: { host: string; name: string }) {
  const m = useAnswer("host-metrics", { host });
  return (
    <Loaded of={m}>
      {(v) => {
        const w = (v.metrics as Sample | undefined)?.workspaces?.find((x) => x.name === name);
        if (!w) return <Empty>Nothing: it does not run, the host is away, or metrics of workspaces are off.</Empty>;
        return (
          <dl class="facts">
            <dt>Measured</dt><dd><Time at={v.at} /></dd>
            <dt>Processor</dt><dd>{w.cpuPermille === undefined ? "unknown" : `${(w.cpuPermille / 10).toFixed(1)} % of one CPU`}</dd>
            <dt>Memory</dt><dd>{w.memBytes === undefined ? "unknown" : bytes(w.memBytes)}{w.memLimitBytes ? ` of ${bytes(w.memLimitBytes)}` : ""}</dd>
            <dt>Processes</dt><dd>{w.pids ?? "unknown"}</dd>
          </dl>
        );
      }}
    </Loaded>
  );
}

const gib = (bytes: number) => `${(bytes / 2 ** 30).toFixed(1)} GiB`;

// Plot draws series with a library that no other page needs, and that is fetched for the first one.
function Plot(p: Plotted) {
  const at = useRef<HTMLDivElement>(null);
  const [plot, drawn] = useState<ReturnType<typeof draw>>();
  const [failed, fail] = useState(false);
  useEffect(() => {
    let over = false;
    import("./plot").then((m) => over || drawn(m.draw(at.current!, p)), () => fail(true));
    return () => (over = true, undefined);
  }, []);
  useEffect(() => plot?.dispose, [plot]);
  useEffect(() => plot?.show(p), [plot, p.times]);
  if (failed) return <p role="alert" class="error">This part of the page could not be fetched. Load the page again.</p>;
  return <div ref={at} class="plot" role="img" aria-label={p.series.map(([label, values]) => `${label}: ${values.at(-1)?.toFixed(1) ?? "unknown"}`).join(", ")} />;
}
