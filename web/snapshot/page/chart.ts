import type { Opened } from '../answer/open.js';
import type { View, ViewRequest } from '../answer/view.js';
import { type AxisKind, TimeAxis } from '../data/time-axis.js';
import { type Ask, newestOnly } from './ask.js';
import { css, palette } from './colours.js';
import { byId, choiceOf, onButtons, sharp } from './elements.js';
import { byteSteps, bytesText, countText, evenSteps, secondsText } from './words.js';

/** The allocation or stack under a point. */
export interface Band {
  readonly kind: ViewRequest['mode'];
  readonly id: number;
}

interface Chart {
  /** Draws again from what is known, with the bands of one stack alone in full colour. */
  highlight(stack: number): void;
  mark(tick: number): void;
  refresh(): void;
}

/** Memory over time: the picture comes from the worker, the axes and the pointer are here. */
export function openChart(
  ask: Ask,
  opened: Opened,
  acts: { readonly picked: (band: Band | undefined, tick: number) => void },
): Chart {
  const box = byId('time');
  const [canvas, overlay] = [...box.querySelectorAll('canvas')];
  if (!canvas || !overlay) throw new Error('the chart has no canvas');
  const chart = new ChartView(opened);
  let view: View | undefined;
  let [cursor, chosen, only, row] = [-1, -1, -1, -1];

  const load = newestOnly(async () => {
    const ratio = window.devicePixelRatio || 1;
    const [W, H] = [
      canvas.clientWidth - plot.left - plot.right,
      chartHeight() - plot.top - plot.bottom,
    ];
    const { axis, mode, from, to, vertical } = chart;
    view = await ask('view', {
      axis,
      mode,
      from,
      to,
      vertical,
      width: Math.max(10, Math.round(W * ratio)),
      height: Math.max(10, Math.round(H * ratio)),
    });
    if (vertical === undefined) chart.fullHigh = view.high;
    draw();
  });
  const refresh = () => load(undefined);
  const place = () => (only < 0 ? undefined : (opened.placeOfStack[only] ?? -1));
  function draw(): void {
    if (!view || !canvas) return;
    drawChart(canvas, chartHeight(), view, { chart, opened, only: place() });
    drawCursor();
    byId('range').textContent = rangeText(chart, opened);
    byId('axis-words').textContent = axisText(chart, opened);
    byId('band-words').textContent =
      chart.mode === 'allocations' && view.leastBytes > 1024
        ? `Allocations below ${bytesText(view.leastBytes)} are drawn together, in grey on top; zoom in vertically to see each.`
        : '';
  }
  /** On a sheet of its own, so that moving the pointer draws a line and not the picture. */
  function drawCursor(): void {
    if (!overlay || !view) return;
    const { pen, width } = sharp(overlay, chartHeight());
    const { from, to } = view.request;
    for (const [tick, colour] of [
      [chosen, css('accent')],
      [cursor, css('ink')],
    ] as const) {
      const share = (chart.at(tick) - from) / (to - from);
      if (tick < 0 || share < 0 || share > 1) continue;
      pen.fillStyle = colour;
      const x = plot.left + share * (width - plot.left - plot.right);
      pen.fillRect(x, plot.top, 1.5, chartHeight() - plot.top - plot.bottom);
    }
  }
  /** The band at a column and a row of the picture. */
  const bandAt = (x: number, y: number): Band | undefined => {
    const id = view?.ids[y * view.request.width + x] ?? -1;
    return view && id >= 0 ? { kind: view.request.mode, id } : undefined;
  };
  const nameBand = newestOnly(async ({ band, words }: { band: Band; words: string }) => {
    const title =
      band.kind === 'stacks'
        ? opened.stacks.find(({ stack }) => stack === band.id)?.title
        : await ask('life', band.id).then((life) => `${bytesText(life.bytes)}, ${life.title}`);
    byId('time-readout').textContent = `${words}. Here: ${title ?? ''}`;
  });
  const read = (x: number, y: number) => {
    if (!view) return;
    cursor = view.sample[x] ?? 0;
    const when = chart.time.known ? `${secondsText(chart.time.secondsAt(cursor), 0.02)}, ` : '';
    const words = `At ${when}event ${countText(cursor * opened.group)}: ${bytesText(view.allocated[x] ?? 0)} allocated, ${bytesText(view.reserved[x] ?? 0)} reserved`;
    const band = bandAt(x, y);
    if (band) nameBand({ band, words });
    else byId('time-readout').textContent = words;
    drawCursor();
  };
  const pixel = (event: MouseEvent) => {
    const edge = canvas.getBoundingClientRect();
    const [left, top] = [
      event.clientX - edge.left - plot.left,
      event.clientY - edge.top - plot.top,
    ];
    const [W, H] = [edge.width - plot.left - plot.right, edge.height - plot.top - plot.bottom];
    const { width, height: rows } = view?.request ?? { width: 1, height: 1 };
    return {
      shareX: left / W,
      shareY: 1 - top / H,
      x: Math.max(0, Math.min(width - 1, Math.floor((left / W) * width))),
      y: Math.max(0, Math.min(rows - 1, Math.floor((top / H) * rows))),
      isInside: left >= 0 && left < W && top >= 0 && top < H,
    };
  };
  const pick = (x: number, y: number) => {
    chosen = view?.sample[x] ?? 0;
    acts.picked(bandAt(x, y), chosen);
    drawCursor();
  };
  const changed = () => {
    row = -1;
    refresh();
  };
  const valueAt = (share: number) => chart.from + share * (chart.to - chart.from);
  const bytesAt = (share: number) => {
    const { low, high } = chart.vertical ?? { low: 0, high: chart.fullHigh };
    return low + share * (high - low);
  };

  let drag: { x: number; y: number; moved: boolean } | undefined;
  canvas.addEventListener('pointerdown', (event) => {
    drag = { x: event.clientX, y: event.clientY, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener('pointermove', (event) => {
    const at = pixel(event);
    if (!drag) {
      if (at.isInside) read(at.x, at.y);
      return;
    }
    const [byX, byY] = [event.clientX - drag.x, event.clientY - drag.y];
    if (!drag.moved && Math.hypot(byX, byY) <= 4) return;
    drag = { x: event.clientX, y: event.clientY, moved: true };
    chart.move(-byX / (canvas.clientWidth - plot.left - plot.right));
    chart.moveVertically(byY / (chartHeight() - plot.top - plot.bottom));
    changed();
  });
  canvas.addEventListener('pointercancel', () => {
    drag = undefined;
  });
  canvas.addEventListener('pointerup', (event) => {
    const at = pixel(event);
    if (drag && !drag.moved && at.isInside) {
      read(at.x, at.y);
      pick(at.x, at.y);
    }
    drag = undefined;
  });
  canvas.addEventListener(
    'wheel',
    (event) => {
      event.preventDefault();
      const { shareX, shareY } = pixel(event);
      const factor = (event.deltaY || event.deltaX) > 0 ? 1.25 : 0.8;
      if (event.shiftKey) chart.zoomVertically(factor, bytesAt(shareY));
      else chart.zoom(factor, valueAt(shareX));
      changed();
    },
    { passive: false },
  );
  canvas.addEventListener('dblclick', () => run('all'));

  const middle = () => {
    const at = chart.at(cursor >= 0 ? cursor : chosen);
    return at > chart.from && at < chart.to ? at : valueAt(0.5);
  };
  const pressAxis = choiceOf<AxisKind>('axis', ['time', 'events'], (axis) => {
    chart.setAxis(axis);
    changed();
  });
  const pressMode = choiceOf<ViewRequest['mode']>('mode', ['stacks', 'allocations'], (mode) => {
    chart.mode = mode;
    changed();
  });
  pressAxis(chart.axis);
  const actions: Readonly<Record<string, () => void>> = {
    in: () => chart.zoom(0.5, middle()),
    out: () => chart.zoom(2, middle()),
    taller: () => chart.zoomVertically(0.5, bytesAt(row < 0 ? 0.5 : rowShare())),
    flatter: () => chart.zoomVertically(2, bytesAt(0.5)),
    up: () => chart.moveVertically(0.25),
    down: () => chart.moveVertically(-0.25),
    all: () => chart.all(),
    peak: () => chart.around(opened.marks.peak),
    left: () => chart.move(-0.25),
    right: () => chart.move(0.25),
    mode: () => {
      chart.mode = chart.mode === 'stacks' ? 'allocations' : 'stacks';
      pressMode(chart.mode);
    },
    axis: () => {
      if (chart.time.known) chart.setAxis(chart.axis === 'time' ? 'events' : 'time');
      pressAxis(chart.axis);
    },
  };
  const rowShare = () => 1 - (row + 0.5) / (view?.request.height ?? 1);
  const run = (name: string) => {
    actions[name]?.();
    changed();
  };
  onButtons('act', run);
  const keys: Readonly<Record<string, string>> = {
    '+': 'in',
    '=': 'in',
    '-': 'out',
    ']': 'taller',
    '[': 'flatter',
    0: 'all',
    p: 'peak',
    PageUp: 'left',
    PageDown: 'right',
    m: 'mode',
    t: 'axis',
  };
  const columnOf = (tick: number) => Math.max(0, view?.sample.findIndex((one) => one >= tick) ?? 0);
  box.addEventListener('keydown', (event) => {
    const name = keys[event.key];
    const sideways = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const upwards = { ArrowUp: 1, ArrowDown: -1 }[event.key];
    if (!view || event.ctrlKey || event.metaKey || event.altKey) return;
    const { width } = view.request;
    const x = columnOf(cursor);
    if (name !== undefined) run(name);
    else if (event.shiftKey && upwards !== undefined) run(upwards > 0 ? 'up' : 'down');
    else if (sideways !== undefined) {
      const to = x + sideways * Math.max(2, Math.round(width / 250));
      if (to < 0 || to >= width) run(sideways < 0 ? 'left' : 'right');
      read(Math.max(0, Math.min(width - 1, to)), Math.max(0, row));
    } else if (upwards !== undefined) {
      row = nextBand(view, x, row, upwards);
      read(x, row);
    } else if (event.key === 'Enter') pick(x, Math.max(0, row));
    else return;
    event.preventDefault();
  });
  refresh();
  return {
    highlight(stack) {
      only = stack;
      draw();
    },
    mark(tick) {
      chosen = tick;
      drawCursor();
    },
    refresh,
  };
}

function chartHeight(): number {
  return Math.round(Math.max(230, Math.min(400, window.innerHeight * 0.42)));
}

/** The row of the next band above or below in a column; rows count from the top. */
function nextBand({ ids, request }: View, x: number, row: number, upwards: number): number {
  const { width, height } = request;
  if (row < 0) return height - 1;
  const idAt = (y: number) => ids[y * width + x] ?? -1;
  let y = row;
  while (y - upwards >= 0 && y - upwards < height && idAt(y) === idAt(row)) y -= upwards;
  return idAt(y) < 0 && upwards > 0 ? row : y;
}

function rangeText(chart: ChartView, { group, ticks }: Opened): string {
  if (chart.isAll) return 'all of the recording';
  const span = chart.to - chart.from;
  if (chart.axis === 'time')
    return `${secondsText(chart.from, span)} to ${secondsText(chart.to, span)}`;
  const last = Math.min(ticks - 1, chart.to);
  return `events ${countText(chart.from * group)} to ${countText(last * group)}`;
}

function axisText(chart: ChartView, { time }: Opened): string {
  if (time === undefined) return 'The axis is the order of events: this recording has no times.';
  return chart.axis === 'time'
    ? 'The axis is time since the recording began, linear.'
    : 'The axis is the order of events, not time: equal widths are equal numbers of events.';
}

const plot = { left: 66, right: 8, top: 12, bottom: 24 };

/** Draws a picture that came from the worker, with axes, marks and the line of reserved memory. */
function drawChart(
  canvas: HTMLCanvasElement,
  height: number,
  view: View,
  shown: { readonly chart: ChartView; readonly opened: Opened; readonly only: number | undefined },
): void {
  const { chart, opened, only } = shown;
  const { pen, width, ratio } = sharp(canvas, height);
  const [W, H] = [width - plot.left - plot.right, height - plot.top - plot.bottom];
  const Y = (bytes: number) => plot.top + H - ((bytes - view.low) / (view.high - view.low)) * H;
  const X = (tick: number) =>
    plot.left + ((chart.at(tick) - view.request.from) / (view.request.to - view.request.from)) * W;
  const isIn = (tick: number) => X(tick) >= plot.left && X(tick) <= plot.left + W;
  const [ruleColour, soft] = [css('rule'), css('soft')];

  pen.putImageData(
    imageOf(view, only),
    Math.round(plot.left * ratio),
    Math.round(plot.top * ratio),
  );
  pen.textAlign = 'right';
  for (const { at, text } of byteSteps(view.low, view.high, H / 60)) {
    pen.fillStyle = ruleColour;
    pen.globalAlpha = 0.6;
    pen.fillRect(plot.left, Y(at), W, 1);
    pen.globalAlpha = 1;
    pen.fillStyle = soft;
    pen.fillText(text, plot.left - 6, Y(at));
  }
  pen.save();
  pen.beginPath();
  pen.rect(plot.left, plot.top, W, H);
  pen.clip();
  const line = (values: Float64Array, colour: string, dash: number[]) => {
    pen.strokeStyle = colour;
    pen.setLineDash(dash);
    pen.lineWidth = 1.5;
    pen.beginPath();
    values.forEach((bytes, x) => pen.lineTo(plot.left + (x / values.length) * W, Y(bytes)));
    pen.stroke();
    pen.setLineDash([]);
  };
  line(view.reserved, css('reserved'), [5, 3]);
  if (view.exact.length > 0) line(view.exact, css('ink'), []);
  drawMarks();
  pen.restore();
  drawAxis();

  function drawMarks(): void {
    const mark = (tick: number, colour: string, text: string, down: number) => {
      if (!isIn(tick)) return;
      pen.fillStyle = colour;
      pen.fillRect(X(tick), plot.top, text === '' ? 1 : 1.5, H);
      if (text === '') return;
      const onLeft = X(tick) > plot.left + W - 100;
      pen.textAlign = onLeft ? 'right' : 'left';
      const [x, y] = [X(tick) + (onLeft ? -5 : 5), plot.top + down];
      // On the ground of the page, so that it can be read on every band.
      const room = pen.measureText(text).width;
      pen.fillStyle = css('card');
      pen.globalAlpha = 0.85;
      pen.fillRect(onLeft ? x - room - 3 : x - 3, y - 8, room + 6, 16);
      pen.globalAlpha = 1;
      pen.fillStyle = colour;
      pen.fillText(text, x, y);
    };
    const steps = opened.marks.steps.filter(isIn);
    pen.globalAlpha = 0.35;
    if (steps.length <= 60) for (const tick of steps) mark(tick, soft, '', 0);
    pen.globalAlpha = 1;
    mark(opened.marks.peak, css('ink'), 'peak', 9);
    for (const tick of opened.marks.outOfMemory) mark(tick, css('critical'), 'out of memory', 27);
  }

  function drawAxis(): void {
    const { from, to } = view.request;
    pen.fillStyle = soft;
    pen.textAlign = 'center';
    const steps = evenSteps(from, to, W / 130);
    for (const value of steps) {
      const x = plot.left + ((value - from) / (to - from)) * W;
      pen.fillRect(x, plot.top + H, 1, 4);
      const text =
        chart.axis === 'time'
          ? secondsText(value, ((steps[1] ?? to) - (steps[0] ?? from)) * 2)
          : countText(value * opened.group);
      const half = pen.measureText(text).width / 2;
      if (x - half > 0 && x + half < width) pen.fillText(text, x, height - 10);
    }
  }
}

function imageOf({ request, shades }: View, only: number | undefined): ImageData {
  const image = new ImageData(request.width, request.height);
  const pixels = new Uint32Array(image.data.buffer);
  const colours = palette(only);
  for (let at = 0; at < shades.length; at += 1) pixels[at] = colours[shades[at] ?? 0] ?? 0;
  return image;
}

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

  /** The end of the axis. */
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
