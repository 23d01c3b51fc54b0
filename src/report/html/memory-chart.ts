import { formatBytes } from '../../units/bytes.js';
import { formatSeconds } from '../../units/durations.js';
import { isKnown } from '../../units/known.js';
import type { DeviceReport } from '../report-shape.js';
import { byteTicks, timeTicks } from '../ticks.js';
import { etaWords, percentWords } from '../words.js';
import { alertMarks, type NumberedAlert } from './alert-marks.js';
import { bandPath, type ChartSize, chartFrame, type Frame, linePath, px } from './chart-frame.js';
import { emblemAt } from './emblem.js';
import { forecastCone, nowMark } from './forecast-cone.js';
import { hoverColumns } from './hover.js';
import { html, type Markup } from './markup.js';

/** Memory of one device over time as an SVG that needs nothing from outside the page. */
export function memoryChart(
  device: DeviceReport,
  alerts: readonly NumberedAlert[],
  size: ChartSize,
  key: string,
): Markup {
  const frame = chartFrame(device, size);
  const { series } = device;
  const id = `${key}-${size.name}`;
  const clipId = `${id}-plot`;
  return html`<svg class="chart ${size.name}" viewBox="0 0 ${size.width} ${size.height}" role="img" aria-labelledby="${id}-title ${id}-desc" data-hover>
<title id="${id}-title">Memory of ${device.id}, ${device.name}, over time</title>
<desc id="${id}-desc">${description(device)}</desc>
<clipPath id="${clipId}"><rect x="${px(frame.left)}" y="${px(frame.top)}" width="${px(frame.right - frame.left)}" height="${px(frame.bottom - frame.top)}"/></clipPath>
${axes(frame)}
<path class="area" d="${bandPath(
    frame,
    series.seconds,
    series.seconds.map(() => 0),
    series.usedBytes.mean,
  )}"/>
<path class="band" d="${bandPath(frame, series.seconds, series.usedBytes.min, series.usedBytes.max)}"/>
${series.reservedBytes && html`<path class="line reserved" d="${linePath(frame, series.seconds, series.reservedBytes.max)}"/>`}
${series.allocatedBytes && html`<path class="line allocated" d="${linePath(frame, series.seconds, series.allocatedBytes.max)}"/>`}
<path class="line used" d="${linePath(frame, series.seconds, series.usedBytes.mean)}"/>
${hoverColumns(device, frame)}
${forecastCone(device, frame, clipId)}
${limits(device, frame)}
${alertMarks(alerts, frame)}
${nowMark(device, frame)}
</svg>`;
}

function axes(frame: Frame): Markup {
  const bytes = byteTicks(frame.topBytes, frame.size.byteTicks).map(
    ({ at, label }) =>
      html`<line x1="${px(frame.left)}" x2="${px(frame.right)}" y1="${px(frame.y(at))}" y2="${px(frame.y(at))}"/><text x="${px(frame.left - 8)}" y="${px(frame.y(at) + 4)}" text-anchor="end">${label}</text>`,
  );
  const times = timeTicks(frame.fromSeconds, frame.toSeconds, frame.size.timeTicks).map(
    ({ at, label }) =>
      html`<line x1="${px(frame.x(at))}" x2="${px(frame.x(at))}" y1="${px(frame.bottom)}" y2="${px(frame.bottom + 5)}"/><text x="${px(frame.x(at))}" y="${px(frame.bottom + 19)}" text-anchor="middle">${label}</text>`,
  );
  return html`<g class="axis">${bytes}${times}</g>`;
}

/** Lines closer than this have no room for a label between them. */
const labelHeight = 17;

/** Capacity, the allocator's cap where it is another figure, and the load line over all. */
function limits(device: DeviceReport, frame: Frame): Markup {
  const total = device.currentUsage.totalBytes;
  const { limit, loadLine } = device;
  const capacityY = isKnown(total) ? frame.y(total) : -Infinity;
  const own = limit.of === 'allocator' && limit.bytes !== total && isKnown(limit.bytes);
  const loadY = isKnown(loadLine.bytes) ? frame.y(loadLine.bytes) : undefined;
  const others = [capacityY, loadY ?? -Infinity];
  return html`${isKnown(total) && rule(frame, capacityY, `capacity ${formatBytes(total)}`)}
${own && isKnown(limit.bytes) && allocatorRule(frame, frame.y(limit.bytes), `allocator limit ${formatBytes(limit.bytes)}`, others)}
${
  loadY !== undefined &&
  html`<g class="load-line"><line x1="${px(frame.left)}" x2="${px(frame.right)}" y1="${px(loadY)}" y2="${px(loadY)}"/>${emblemAt(frame.left + 14, loadY)}<line x1="${px(frame.left + 4)}" x2="${px(frame.left + 24)}" y1="${px(loadY)}" y2="${px(loadY)}"/><text x="${px(frame.left + 28)}" y="${px(labelY(loadY, [capacityY]))}">load line ${percentWords(loadLine.percent)}</text></g>`
}`;
}

function rule(frame: Frame, y: number, label: string): Markup {
  return html`<g class="capacity"><line x1="${px(frame.left)}" x2="${px(frame.right)}" y1="${px(y)}" y2="${px(y)}"/><text x="${px(frame.left + 28)}" y="${px(y - 5)}">${label}</text></g>`;
}

/** Its label is at the other end: the line may lie anywhere near the other two. */
function allocatorRule(frame: Frame, y: number, label: string, others: readonly number[]): Markup {
  return html`<g class="capacity"><line x1="${px(frame.left)}" x2="${px(frame.right)}" y1="${px(y)}" y2="${px(y)}"/><text x="${px(frame.right)}" y="${px(labelY(y, others))}" text-anchor="end">${label}</text></g>`;
}

/** Above its line, or below it where another line is too close above. */
function labelY(y: number, others: readonly number[]): number {
  return others.some((other) => other <= y && y - other < labelHeight) ? y + 14 : y - 5;
}

/** What the picture shows, for those who do not see it. */
function description(device: DeviceReport): string {
  const { statistics, series, forecast, provenance } = device;
  const span = formatSeconds((series.seconds.at(-1) ?? 0) - (series.seconds[0] ?? 0));
  const eta = etaWords(forecast);
  const ahead = eta === undefined ? 'No end is forecast.' : `Estimated to be full in ${eta}.`;
  return `Used memory over ${span}, ${provenance}: between ${percentWords(statistics.minUsedPercent, 1)} and ${percentWords(statistics.maxUsedPercent, 1)} of ${formatBytes(device.currentUsage.totalBytes)}, ${percentWords(device.currentUsage.usedPercent, 1)} at the end. Load line at ${percentWords(device.loadLine.percent)}. ${ahead}`;
}
