import { formatBytes } from '../../units/bytes.js';
import { formatSeconds } from '../../units/durations.js';
import { deviceFindings, type Finding } from '../findings.js';
import type { DeviceReport, ProfileReport } from '../report-shape.js';
import { count, etaWords, percentWords, trendWords, usedOfTotal, utcWords } from '../words.js';
import { emblem } from './emblem.js';
import { html, type Markup, unbroken } from './markup.js';
import { sparkSvg } from './spark-svg.js';

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
