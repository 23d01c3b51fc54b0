import { useEffect, useRef, useState } from 'preact/hooks';
import type { ChartInput } from '../charts/chart-input.js';
import { createMemoryChart, type MemoryChart } from '../charts/memory-chart.js';
import { colourVersion } from '../state/page/theme.js';
import { type Drawable, forgetDraw, requestDraw } from './use-staggered.js';

/** A pixel of a chart of five minutes is nearly a second wide. */
const leastMs = 400;

/** A chart, drawn only while it is on the screen; `label` tells in words what it shows. */
export function ChartBox({ input, label }: { input: ChartInput; label: string }) {
  const box = useRef<HTMLDivElement>(null);
  const latest = useRef(input);
  const redraw = useRef<(() => void) | undefined>(undefined);
  const [under, setUnder] = useState('');
  latest.current = input;

  useEffect(() => {
    if (box.current === null) return undefined;
    const mounted = mountChart(box.current, () => latest.current, setUnder);
    redraw.current = mounted.redraw;
    return mounted.end;
  }, []);
  useEffect(() => redraw.current?.());

  return (
    <div class="chart-box">
      <div class="chart" ref={box} role="img" aria-label={label} />
      <p class="readout" aria-hidden="true">
        {under}
      </p>
    </div>
  );
}

function mountChart(
  element: HTMLElement,
  input: () => ChartInput,
  say: (text: string) => void,
): { redraw: () => void; end: () => void } {
  let chart: MemoryChart | undefined;
  let seen = false;
  const drawable: Drawable = {
    leastMs,
    draw() {
      chart ??= createMemoryChart(element, input(), say);
      chart.draw(input());
    },
  };
  const redraw = (): void => {
    if (seen) requestDraw(drawable);
  };
  const screen = new IntersectionObserver((entries) => {
    seen = entries.some(({ isIntersecting }) => isIntersecting);
    redraw();
  });
  const size = new ResizeObserver(([entry]) => {
    if (entry !== undefined) chart?.resize(entry.contentRect.width, entry.contentRect.height);
  });
  screen.observe(element);
  size.observe(element);
  const forgetColours = colourVersion.subscribe(() => chart?.recolour());
  return {
    redraw,
    end() {
      forgetDraw(drawable);
      forgetColours();
      screen.disconnect();
      size.disconnect();
      chart?.destroy();
    },
  };
}
