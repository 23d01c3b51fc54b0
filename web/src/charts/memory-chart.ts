import uPlot from 'uplot';
import { byteTicks } from '../../../src/report/ticks.js';
import { formatBytes } from '../../../src/units/bytes.js';
import { type ChartColours, chartColours } from './chart-colours.js';
import type { ChartInput } from './chart-input.js';
import { drawOverlay } from './chart-overlay.js';
import { clockTicks } from './clock-ticks.js';

const font = '11px system-ui, sans-serif';

export interface MemoryChart {
  draw(input: ChartInput): void;
  resize(width: number, height: number): void;
  /** After the colours of the page changed. */
  recolour(): void;
  destroy(): void;
}

/** Memory over time on a canvas; `say` gets what is under the pointer, or nothing. */
export function createMemoryChart(
  element: HTMLElement,
  first: ChartInput,
  say: (text: string) => void,
): MemoryChart {
  let input = first;
  let colours: ChartColours = chartColours();
  const { clientWidth, clientHeight } = element;
  const grid = { show: true, stroke: () => colours.rule, width: 1 };
  const wide = (): boolean => element.clientWidth > 420;
  const chart = new uPlot(
    {
      width: Math.max(1, clientWidth),
      height: Math.max(1, clientHeight),
      padding: [8, 4, 0, 0],
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
      scales: {
        x: { time: false, range: () => [input.fromMs, input.toMs] },
        y: { range: () => [0, input.topBytes] },
      },
      axes: [
        {
          stroke: () => colours.soft,
          font,
          size: 24,
          gap: 2,
          grid: { show: false },
          ticks: { show: true, stroke: () => colours.rule, size: 4, width: 1 },
          splits: () => timeTicks(input, wide()).map(({ at }) => at),
          values: () => timeTicks(input, wide()).map(({ label }) => label),
        },
        {
          stroke: () => colours.soft,
          font,
          size: 54,
          gap: 4,
          grid,
          ticks: { show: false },
          splits: () => byteTicks(input.topBytes, 5).map(({ at }) => at),
          values: () => byteTicks(input.topBytes, 5).map(({ label }) => label),
        },
      ],
      series: [
        {},
        { stroke: () => colours.water, width: 2, points: { show: false } },
        { fill: () => colours['water-fill'], width: 0, points: { show: false } },
      ],
      bands: [{ series: [1, 2], fill: () => colours.band }],
      hooks: {
        draw: [(self) => drawOverlay(self, input, colours)],
        setCursor: [(self) => say(underPointer(self, input))],
      },
    },
    dataOf(first),
    element,
  );
  return {
    draw(next) {
      input = next;
      chart.setData(dataOf(next));
    },
    resize(width, height) {
      if (width > 0 && height > 0) chart.setSize({ width, height });
    },
    recolour() {
      colours = chartColours();
      chart.redraw(false, true);
    },
    destroy: () => chart.destroy(),
  };
}

function timeTicks({ fromMs, toMs }: ChartInput, wide: boolean) {
  // A label at the very edge would be cut.
  const edge = (toMs - fromMs) * (wide ? 0.03 : 0.07);
  const offset = new Date(fromMs).getTimezoneOffset();
  return clockTicks(fromMs + edge, toMs - edge, wide ? 7 : 4, offset);
}

function dataOf({ epochMs, max, min }: ChartInput): uPlot.AlignedData {
  return [[...epochMs], [...max], [...min]];
}

function underPointer(chart: uPlot, { epochMs, max, min }: ChartInput): string {
  const index = chart.cursor.idx;
  if (index === null || index === undefined || (chart.cursor.left ?? -1) < 0) return '';
  const high = max[index];
  const low = min[index];
  const at = epochMs[index];
  if (at === undefined || high === null || high === undefined) return '';
  const range =
    low !== null && low !== undefined && high - low > high * 0.005
      ? `${formatBytes(low)} to ${formatBytes(high)}`
      : formatBytes(high);
  return `${new Date(at).toLocaleTimeString([], { hour12: false })}, ${range}`;
}
