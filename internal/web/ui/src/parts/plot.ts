import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

export interface Plotted {
  times: number[]; // seconds since 1970
  series: [string, (number | null)[]][];
}

const dataOf = ({ times, series }: Plotted) => [times, ...series.map(([, values]) => values)] as uPlot.AlignedData;

// draw makes a plot of percentages over time in an element, as wide as that is. The build leaves the
// static functions of uPlot out.
export function draw(at: HTMLElement, first: Plotted) {
  const style = getComputedStyle(at);
  const colour = (name: string) => style.getPropertyValue(`--${name}`);
  const axis = { stroke: colour("dim"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line") } };
  const plot = new uPlot({
    width: at.clientWidth, height: 200, scales: { y: { range: [0, 100] } }, axes: [axis, axis],
    series: [{}, ...first.series.map(([label], i) => ({ label, stroke: colour(["busy", "warn", "good", "away"][i]!), width: 2, dash: i % 2 ? [6, 4] : [] }))],
  }, dataOf(first), at);
  const watch = new ResizeObserver(([e]) => plot.setSize({ width: e!.contentRect.width, height: 200 }));
  watch.observe(at);
  return {
    show: (p: Plotted) => plot.setData(dataOf(p)),
    dispose: () => {
      watch.disconnect();
      plot.destroy();
    },
  };
}
