import { formatBytes } from '../../units/bytes.js';
import { formatSeconds } from '../../units/durations.js';
import { isKnown, type Known } from '../../units/known.js';
import { deviceFindings, type Finding } from '../findings.js';
import type { DeviceReport, ProfileReport } from '../report-shape.js';
import { count, etaWords, percentWords, trendWords, usedOfTotal, utcWords } from '../words.js';
import { px } from './chart-frame.js';
import { emblem, html, type Markup, unbroken } from './page-head.js';

/** The head of the page: when, how long, and the one thing to know. */
export function masthead(report: ProfileReport): Markup {
  const samples = Object.values(report.devices).reduce(
    (sum, device) => sum + device.statistics.samplesCount,
    0,
  );
  return html`<header>
<div class="masthead">${emblem()}<div><h1>Memory profile</h1>
<p class="soft">${utcWords(Date.parse(report.startedAt))}, over ${formatSeconds(report.durationSeconds)}${report.interrupted && html` <span class="tag interrupted">interrupted</span>`}</p></div></div>
${lede(report)}
<dl class="facts">
<div><dt>Devices</dt><dd>${report.summary.totalDevices}</dd></div>
<div><dt>Memory</dt><dd>${formatBytes(report.summary.totalBytes)}</dd></div>
<div><dt>In use at end</dt><dd>${percentWords(report.summary.usedPercent, 1)}</dd></div>
<div><dt>Samples</dt><dd>${samples.toLocaleString('en-US')}, every ${formatSeconds(report.intervalSeconds)}</dd></div>
<div><dt>Alerts</dt><dd>${report.alerts.filter((alert) => alert.state === 'raised').length}</dd></div>
</dl>
</header>`;
}

const urgency: Readonly<Record<Finding['level'], number>> = {
  critical: 3,
  warning: 2,
  notice: 1,
  fine: 0,
};

/** The most urgent finding of all devices; calm words when there is none. */
function lede(report: ProfileReport): Markup {
  const all = Object.values(report.devices).flatMap((device) =>
    deviceFindings(device).map((finding) => ({ device, finding })),
  );
  const worst = all
    .filter(({ finding }) => urgency[finding.level] >= urgency.warning)
    .toSorted((one, other) => rank(other.finding) - rank(one.finding))[0];
  if (worst) {
    return html`<p class="lede">${worst.device.id}: ${unbroken(worst.finding.text)} ${tag(worst.finding.provenance)}</p>`;
  }
  const held = Object.keys(report.devices).length;
  if (held === 0) return html`<p class="lede">No device was seen.</p>`;
  return html`<p class="lede">${held === 1 ? 'The device' : `All ${count(held, 'device')}`} stayed below the load line, and no end of the memory is near.</p>`;
}

/** Between findings of one level, what is about to happen comes before what was. */
function rank(finding: Finding): number {
  return urgency[finding.level] * 2 + (finding.provenance === 'estimated' ? 1 : 0);
}

export function overview(report: ProfileReport): Markup {
  const rows = Object.values(report.devices).map(
    (
      device,
      index,
    ) => html`<tr><th scope="row"><a href="#device-${index}">${device.id}</a> ${device.provenance === 'simulated' && tag('simulated')}</th>
<td class="number">${percentWords(device.currentUsage.usedPercent, 1)}</td>
<td>${sparkSvg(device)}</td>
<td>${usedOfTotal(device.currentUsage.usedBytes, device.currentUsage.totalBytes)}</td>
<td class="trend">${trendWords(device.statistics.trend)}</td>
<td class="right">${outlook(device)}</td></tr>`,
  );
  return html`<section aria-label="Overview"><table class="overview">
<thead><tr><th scope="col">Device</th><th scope="col" class="number">In use</th><th scope="col">Over time, with the load line</th><th scope="col">Used at the end</th><th scope="col">Trend</th><th scope="col" class="right">Full in (estimated)</th></tr></thead>
<tbody>${rows}</tbody></table></section>`;
}

function outlook({ forecast }: DeviceReport): string {
  if (forecast.etaSeconds === 0) return 'full now';
  return (
    etaWords(forecast) ??
    (forecast.etaSeconds === 'never' ? 'no out-of-memory expected' : 'unknown')
  );
}

/** The word that every figure carries. */
export function tag(word: string): Markup {
  return html`<span class="tag ${word}">${word}</span>`;
}

const width = 160;
const height = 30;

/** A word-sized chart from empty to full, with the load line in it. */
function sparkSvg(device: DeviceReport): Markup {
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
