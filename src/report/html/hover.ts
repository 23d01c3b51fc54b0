import { formatBytes } from '../../units/bytes.js';
import { formatSeconds } from '../../units/durations.js';
import { isKnown } from '../../units/known.js';
import type { DeviceReport } from '../report-shape.js';
import type { Frame } from './chart-frame.js';
import { px } from './chart-frame.js';
import { html, Markup } from './markup.js';

/** A readout for every few pixels: more would be wider than a pointer is exact. */
const most = 160;

/**
 * Invisible columns over the plot, each with its figures as a tooltip: they work without script;
 * the script only shows the same words at once, and a line where the pointer is.
 */
export function hoverColumns(device: DeviceReport, frame: Frame): Markup {
  const { seconds, usedBytes, allocatedBytes, reservedBytes } = device.series;
  const stride = Math.max(
    1,
    Math.ceil(seconds.length / (frame.size.name === 'wide' ? most : most / 2)),
  );
  const columns: Markup[] = [];
  for (let index = 0; index < seconds.length; index += stride) {
    const at = seconds[index] ?? 0;
    const x = frame.x(at);
    const end = frame.x(seconds[index + stride] ?? frame.nowSeconds);
    const used = usedBytes.mean[index] ?? 'unknown';
    const allocated = allocatedBytes?.max[index] ?? 'unknown';
    const reserved = reservedBytes?.max[index] ?? 'unknown';
    const text = [
      formatSeconds(at),
      `used ${formatBytes(used)}`,
      isKnown(allocated) && `allocated ${formatBytes(allocated)}`,
      isKnown(reserved) && `reserved ${formatBytes(reserved)}`,
    ]
      .filter(Boolean)
      .join(', ');
    columns.push(
      html`<rect x="${px(x)}" y="${px(frame.top)}" width="${px(Math.max(1, end - x))}" height="${px(frame.bottom - frame.top)}"><title>${text}</title></rect>`,
    );
  }
  return html`<line class="cursor" y1="${px(frame.top)}" y2="${px(frame.bottom)}"/><g class="columns" aria-hidden="true">${columns}</g>`;
}

/** The page is whole without it. */
export const hoverScript = new Markup(`<script>
for (const figure of document.querySelectorAll('figure')) {
  const readout = figure.querySelector('.readout');
  const rest = readout.textContent;
  for (const chart of figure.querySelectorAll('[data-hover]')) {
    const cursor = chart.querySelector('.cursor');
    chart.addEventListener('pointermove', (event) => {
      if (event.target.parentNode.getAttribute('class') !== 'columns') return;
      const x = event.target.getAttribute('x');
      cursor.setAttribute('x1', x);
      cursor.setAttribute('x2', x);
      cursor.style.visibility = 'visible';
      readout.textContent = event.target.textContent;
    });
    chart.addEventListener('pointerleave', () => {
      cursor.style.visibility = 'hidden';
      readout.textContent = rest;
    });
  }
}
</script>`);
