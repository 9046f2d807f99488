import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

export interface Plotted {
  times: number[]; // seconds since 1970
  series: [string, (number | null)[]][];
}

// Plot draws series of percentages over time.
export function Plot({ times, series }: Plotted) {
  const at = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const data = [times, ...series.map(([, values]) => values)] as uPlot.AlignedData;
  useEffect(() => {
    const style = getComputedStyle(at.current!);
    const colour = (name: string) => style.getPropertyValue(`--${name}`);
    const axis = { stroke: colour("dim"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line") } };
    plot.current = new uPlot({
      width: at.current!.clientWidth, height: 200, scales: { y: { range: [0, 100] } }, axes: [axis, axis],
      series: [{}, ...series.map(([label], i) => ({ label, stroke: colour(["busy", "warn", "good", "away"][i]!), width: 2, dash: i % 2 ? [6, 4] : [] }))],
    }, data, at.current!);
    const watch = new ResizeObserver(([e]) => plot.current!.setSize({ width: e!.contentRect.width, height: 200 }));
    watch.observe(at.current!);
    return () => {
      watch.disconnect();
      plot.current!.destroy();
    };
  }, []);
  useEffect(() => plot.current!.setData(data), [times]);
  return <div ref={at} class="plot" role="img" aria-label={series.map(([label, values]) => `${label}: ${values.at(-1)?.toFixed(1) ?? "unknown"}`).join(", ")} />;
}
