import type uPlot from 'uplot';
import type { ChartColours } from './chart-colours.js';
import type { ChartInput, ChartMark } from './chart-input.js';
import type { ForecastShape } from './forecast-shape.js';

/** What is drawn over the line of use: cone, capacity, load line, marks, and the line of now. */
export function drawOverlay(chart: uPlot, input: ChartInput, colours: ChartColours): void {
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
