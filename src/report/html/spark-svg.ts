import { isKnown, type Known } from '../../units/known.js';
import type { DeviceReport } from '../report-shape.js';
import { px } from './chart-frame.js';
import { html, type Markup } from './markup.js';

const width = 160;
const height = 30;

/** A word-sized chart from empty to full, with the load line in it. */
export function sparkSvg(device: DeviceReport): Markup {
  const { series, currentUsage, loadLine } = device;
  const { seconds } = series;
  const values = series.usedBytes.max;
  const known = values.filter(isKnown);
  const top = Math.max(1, ...known, isKnown(currentUsage.totalBytes) ? currentUsage.totalBytes : 1);
  const from = seconds[0] ?? 0;
  const span = Math.max((seconds.at(-1) ?? 0) - from, 1e-9);
  const y = (bytes: number): string => px(height - 1 - (bytes / top) * (height - 2));
  const points = peaks(values).map(
    ({ index, value }) => `${px((((seconds[index] ?? 0) - from) / span) * width)} ${y(value)}`,
  );
  const line = points.join('L');
  return html`<svg class="spark" viewBox="0 0 ${width} ${height}" aria-hidden="true">
${points.length > 0 && html`<path class="area" d="M0 ${height}L${line}L${width} ${height}Z"/><path class="line used" d="M${line}"/>`}
${isKnown(loadLine.bytes) && html`<line class="load" x1="0" x2="${width}" y1="${y(loadLine.bytes)}" y2="${y(loadLine.bytes)}"/>`}
</svg>`;
}

/** The peak of every pixel's worth of points: thinning must not hide the highest. */
function peaks(values: readonly Known<number>[]): { index: number; value: number }[] {
  const stride = Math.max(1, Math.ceil(values.length / width));
  const kept: { index: number; value: number }[] = [];
  values.forEach((value, index) => {
    if (!isKnown(value)) return;
    const last = kept.at(-1);
    if (!last || Math.floor(last.index / stride) !== Math.floor(index / stride)) {
      kept.push({ index, value });
    } else if (value > last.value) {
      kept[kept.length - 1] = { index, value };
    }
  });
  return kept;
}
