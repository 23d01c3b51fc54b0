import type { Opened } from '../answer/open.js';
import type { View } from '../answer/view.js';
import type { ChartView } from './chart-view.js';
import { css, palette } from './colours.js';
import { sharp } from './elements.js';
import { byteSteps, countText, evenSteps, secondsText } from './words.js';

export const plot = { left: 66, right: 8, top: 12, bottom: 24 };

/** Draws a picture that came from the worker, with axes, marks and the line of reserved memory. */
export function drawChart(
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
