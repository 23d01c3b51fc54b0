import uPlot from 'uplot';
import { byteTicks, type Tick } from '../../../src/report/ticks.js';
import { formatBytes } from '../../../src/units/bytes.js';
import type { ChartInput, ChartMark, ForecastShape } from './chart-input.js';

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

type ChartColours = ReturnType<typeof chartColours>;

/** The colours that hold now, for what is drawn on a canvas. */
function chartColours() {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string): string => style.getPropertyValue(`--${name}`).trim();
  return {
    ground: colour('ground'),
    ink: colour('ink'),
    soft: colour('soft'),
    rule: colour('rule'),
    water: colour('water'),
    'water-fill': colour('water-fill'),
    band: colour('band'),
    accent: colour('accent'),
    'accent-fill': colour('accent-fill'),
    warning: colour('warning'),
    critical: colour('critical'),
  };
}

/** Draws over the line of use: cone, capacity, load line, marks, and the line of now. */
function drawOverlay(chart: uPlot, input: ChartInput, colours: ChartColours): void {
  const pen = new Pen(chart);
  if (input.cone !== undefined) drawCone(pen, input.cone, colours);
  if (input.nowMs !== undefined && input.nowMs < input.toMs) {
    pen.vertical(input.nowMs, colours.soft, [1, 3]);
  }
  for (const mark of input.marks) drawMark(pen, mark, colours);
  if (input.capacityBytes !== undefined) {
    pen.horizontal(input.capacityBytes, colours.ink, 1.2);
  }
  if (input.loadLineBytes !== undefined) {
    pen.horizontal(input.loadLineBytes, colours.accent, 1.8);
    pen.disc(input.loadLineBytes, colours);
    pen.label(input.loadLineBytes, input.lineLabel, colours);
  }
}

function drawCone(pen: Pen, cone: ForecastShape, colours: ChartColours): void {
  const { fromMs, fromBytes, limitBytes, etaMs, soonestMs, latestMs } = cone;
  const far: readonly (readonly [number, number])[] =
    latestMs === undefined
      ? [
          [Infinity, limitBytes],
          [Infinity, fromBytes],
        ]
      : [[latestMs, limitBytes]];
  pen.shape([[fromMs, fromBytes], [soonestMs, limitBytes], ...far], colours['accent-fill']);
  pen.path(
    [
      [fromMs, fromBytes],
      [etaMs, limitBytes],
    ],
    colours.accent,
    [2, 4],
  );
  pen.dot(etaMs, limitBytes, colours.accent);
}

function drawMark(pen: Pen, { atMs, look }: ChartMark, colours: ChartColours): void {
  const colour = look === 'plain' ? colours.soft : colours[look];
  // Many warnings must not hide what they are about.
  if (look === 'critical') pen.vertical(atMs, colour, [3, 3]);
  pen.foot(atMs, colour);
}

type Point = readonly [ms: number, bytes: number];

/** Draws in time and bytes on the canvas of a chart, inside of its plot. */
class Pen {
  readonly #chart: uPlot;
  readonly #context: CanvasRenderingContext2D;
  readonly #ratio: number;

  constructor(chart: uPlot) {
    this.#chart = chart;
    this.#context = chart.ctx;
    this.#ratio = devicePixelRatio;
  }

  horizontal(bytes: number, colour: string, width: number): void {
    const { left, width: wide } = this.#chart.bbox;
    const y = Math.round(this.#y(bytes));
    this.#stroke(colour, width, [], () => {
      this.#context.moveTo(left, y);
      this.#context.lineTo(left + wide, y);
    });
  }

  vertical(ms: number, colour: string, dash: readonly number[]): void {
    const { top, height } = this.#chart.bbox;
    const x = this.#x(ms);
    if (this.#isOutside(x)) return;
    this.#stroke(colour, 1, dash, () => {
      this.#context.moveTo(x, top);
      this.#context.lineTo(x, top + height);
    });
  }

  path(points: readonly Point[], colour: string, dash: readonly number[]): void {
    this.#clipped(() => this.#stroke(colour, 1.6, dash, () => this.#trace(points)));
  }

  shape(points: readonly Point[], colour: string): void {
    this.#clipped(() => {
      this.#context.fillStyle = colour;
      this.#context.beginPath();
      this.#trace(points);
      this.#context.closePath();
      this.#context.fill();
    });
  }

  dot(ms: number, bytes: number, colour: string): void {
    if (!this.#isOutside(this.#x(ms))) this.#circle(this.#x(ms), this.#y(bytes), 3.5, colour);
  }

  /** The head of a mark, at the foot of the plot. */
  foot(ms: number, colour: string): void {
    const { top, height } = this.#chart.bbox;
    const x = this.#x(ms);
    if (!this.#isOutside(x)) this.#circle(x, top + height - 5 * this.#ratio, 4, colour);
  }

  /** The mark of the load line. */
  disc(bytes: number, colours: ChartColours): void {
    const x = this.#chart.bbox.left + 12 * this.#ratio;
    const y = this.#y(bytes);
    this.#circle(x, y, 5, colours.ground);
    this.#stroke(colours.accent, 1.8, [], () => {
      this.#context.arc(x, y, 5 * this.#ratio, 0, 2 * Math.PI);
      this.#context.moveTo(x - 9 * this.#ratio, y);
      this.#context.lineTo(x + 9 * this.#ratio, y);
    });
  }

  label(bytes: number, text: string, colours: ChartColours): void {
    const context = this.#context;
    context.save();
    context.font = `600 ${11 * this.#ratio}px system-ui, sans-serif`;
    context.textBaseline = 'top';
    context.textAlign = 'left';
    context.lineJoin = 'round';
    context.lineWidth = 4 * this.#ratio;
    context.strokeStyle = colours.ground;
    context.fillStyle = colours.accent;
    const x = this.#chart.bbox.left + 25 * this.#ratio;
    const y = this.#y(bytes) + 4 * this.#ratio;
    context.strokeText(text, x, y);
    context.fillText(text, x, y);
    context.restore();
  }

  #trace(points: readonly Point[]): void {
    points.forEach(([ms, bytes], index) => {
      const { left, width } = this.#chart.bbox;
      const x = Number.isFinite(ms) ? this.#x(ms) : left + width;
      if (index === 0) this.#context.moveTo(x, this.#y(bytes));
      else this.#context.lineTo(x, this.#y(bytes));
    });
  }

  #circle(x: number, y: number, radius: number, colour: string): void {
    this.#context.fillStyle = colour;
    this.#context.beginPath();
    this.#context.arc(x, y, radius * this.#ratio, 0, 2 * Math.PI);
    this.#context.fill();
  }

  #stroke(colour: string, width: number, dash: readonly number[], draw: () => void): void {
    const context = this.#context;
    context.save();
    context.strokeStyle = colour;
    context.lineWidth = width * this.#ratio;
    context.lineCap = dash.length > 0 ? 'round' : 'butt';
    context.setLineDash(dash.map((length) => length * this.#ratio));
    context.beginPath();
    draw();
    context.stroke();
    context.restore();
  }

  #clipped(draw: () => void): void {
    const { left, top, width, height } = this.#chart.bbox;
    this.#context.save();
    this.#context.beginPath();
    this.#context.rect(left, top, width, height);
    this.#context.clip();
    draw();
    this.#context.restore();
  }

  #x(ms: number): number {
    return this.#chart.valToPos(ms, 'x', true);
  }

  #y(bytes: number): number {
    return this.#chart.valToPos(bytes, 'y', true);
  }

  #isOutside(x: number): boolean {
    const { left, width } = this.#chart.bbox;
    return x < left || x > left + width;
  }
}

const second = 1000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;
const steps = [
  second,
  2 * second,
  5 * second,
  10 * second,
  15 * second,
  30 * second,
  minute,
  2 * minute,
  5 * minute,
  10 * minute,
  15 * minute,
  30 * minute,
  hour,
  2 * hour,
  3 * hour,
  6 * hour,
  12 * hour,
  day,
  2 * day,
  7 * day,
] as const;

/**
 * Returns the marks of a time axis, at round local times. `offsetMinutes` is the value of
 * `getTimezoneOffset`.
 */
export function clockTicks(
  fromMs: number,
  toMs: number,
  wanted: number,
  offsetMinutes: number,
): readonly Tick[] {
  const least = (toMs - fromMs) / Math.max(1, wanted);
  const step = steps.find((candidate) => candidate >= least) ?? 30 * day;
  const shift = offsetMinutes * minute;
  const ticks: Tick[] = [];
  for (let at = Math.ceil((fromMs - shift) / step) * step; at + shift <= toMs; at += step) {
    ticks.push({ at: at + shift, label: clockLabel(at, step) });
  }
  return ticks;
}

/** `localMs` counts as if it were UTC, so that no clock of the machine is asked. */
function clockLabel(localMs: number, step: number): string {
  const text = new Date(localMs).toISOString();
  if (step >= day) return text.slice(5, 10);
  return step >= minute ? text.slice(11, 16) : text.slice(11, 19);
}
