import type { Opened } from '../answer/open.js';
import type { ViewRequest } from '../answer/view.js';
import { type AxisKind, TimeAxis } from '../data/time-axis.js';

/** Events, or seconds, that a view shows at least. */
const leastTicks = 12;
const leastBytes = 4096;

/** Which part of the recording the chart shows, and how to move it. Pure: nothing here draws. */
export class ChartView {
  axis: AxisKind;
  mode: ViewRequest['mode'] = 'stacks';
  from = 0;
  to: number;
  vertical: ViewRequest['vertical'] = undefined;
  /** The upper edge when all is shown. */
  fullHigh = 1;
  readonly time: TimeAxis;
  readonly #ticks: number;

  constructor({ ticks, time }: Pick<Opened, 'ticks' | 'time'>) {
    this.time = new TimeAxis(time?.ticks ?? new Uint32Array(), time?.seconds ?? new Float64Array());
    this.#ticks = ticks;
    this.axis = this.time.known ? 'time' : 'events';
    this.to = this.end;
  }

  /** Where the axis ends. */
  get end(): number {
    return this.axis === 'time' ? this.time.lastSeconds : this.#ticks;
  }

  get isAll(): boolean {
    return this.from === 0 && this.to === this.end && this.vertical === undefined;
  }

  /** The place of a tick on the axis. */
  at(tick: number): number {
    return this.axis === 'time' ? this.time.secondsAt(tick) : tick;
  }

  /** The same events on the other axis. */
  setAxis(axis: AxisKind): void {
    if (axis === this.axis) return;
    const all = this.from === 0 && this.to === this.end;
    const [first, last] = [this.from, this.to].map((value) =>
      this.axis === 'time' ? this.time.tickAt(value) : value,
    );
    this.axis = axis;
    [this.from, this.to] = all ? [0, this.end] : [this.at(first ?? 0), this.at(last ?? 0)];
    if (!all) this.zoom(1, (this.from + this.to) / 2);
  }

  all(): void {
    [this.from, this.to, this.vertical] = [0, this.end, undefined];
  }

  /** Shows so much of the axis around a value, which stays where it is. */
  zoom(factor: number, about: number): void {
    const least =
      (this.end * Math.min(leastTicks, this.#ticks)) /
      this.#ticks /
      (this.axis === 'time' ? 100 : 1);
    const span = Math.min(this.end, Math.max(least, (this.to - this.from) * factor));
    const share = (about - this.from) / (this.to - this.from || 1);
    this.#place(about - span * share, span);
  }

  move(share: number): void {
    const span = this.to - this.from;
    this.#place(this.from + span * share, span);
  }

  /** A twentieth of the recording around a tick. */
  around(tick: number): void {
    const span = Math.max(this.end / 20, (this.end * leastTicks) / this.#ticks);
    this.#place(this.at(tick) - span / 2, Math.min(this.end, span));
  }

  zoomVertically(factor: number, about: number): void {
    const { low, high } = this.vertical ?? { low: 0, high: this.fullHigh };
    const span = Math.max(leastBytes, (high - low) * factor);
    if (span >= this.fullHigh) {
      this.vertical = undefined;
      return;
    }
    this.#placeVertically(about - span * ((about - low) / (high - low)), span);
  }

  moveVertically(share: number): void {
    if (this.vertical === undefined) return;
    const { low, high } = this.vertical;
    this.#placeVertically(low + (high - low) * share, high - low);
  }

  #place(from: number, span: number): void {
    this.from = Math.min(this.end - span, Math.max(0, from));
    this.to = this.from + span;
  }

  #placeVertically(from: number, span: number): void {
    const low = Math.min(this.fullHigh - span, Math.max(0, from));
    this.vertical = { low, high: low + span };
  }
}
