import { formatBytes } from '../../units/bytes.js';
import { formatSeconds } from '../../units/durations.js';
import { isKnown, type Known } from '../../units/known.js';
import { deviceFindings, type Finding } from '../findings.js';
import type { DeviceReport, ProfileReport } from '../profile-report.js';
import { count, etaWords, percentWords, trendWords, usedOfTotal, utcWords } from '../words.js';
import { px } from './chart-frame.js';

/** Text that is already HTML. Everything else that enters a template is escaped. */
export class Markup {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

type Content = string | number | Markup | undefined | false | readonly Content[];

/**
 * Writes HTML; what is put in is escaped unless it is itself `Markup`.
 * Attribute values must stand in double quotes.
 *
 * @example
 * html`<td title="${process.name}">${process.name}</td>`;
 */
export function html(pieces: TemplateStringsArray, ...values: readonly Content[]): Markup {
  let text = pieces[0] ?? '';
  values.forEach((value, index) => {
    text += render(value) + (pieces[index + 1] ?? '');
  });
  return new Markup(text);
}

function render(value: Content): string {
  if (value === undefined || value === false) return '';
  if (value instanceof Markup) return value.text;
  if (typeof value === 'object') return value.map(render).join('');
  return escapeHtml(String(value));
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/** Control and direction characters go too: a name must not reorder the text around it. */
function escapeHtml(text: string): string {
  return text
    .replace(/\p{Cs}/gu, '\uFFFD')
    .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, ' ')
    .replace(/[&<>"']/g, (character) => entities[character] ?? '');
}

/** Keeps a figure and its unit on one line. */
export function unbroken(text: string): string {
  return text.replace(/(\d) (?=(?:%|[KMG]iB|B|s|min|h|d)(?!\w))/g, '$1\u00A0');
}

/** Nothing may be fetched by the page, whatever stands in the data. */
const closed = "default-src 'none'; style-src 'unsafe-inline'";

interface PageHead {
  readonly title: string;
  readonly version: string;
  /** Beside the style that all pages share. */
  readonly style?: string;
  /** The page has scripts of its own, which may start a worker from a text that is in the page. */
  readonly scripts?: boolean;
}

/** How each page begins, up to its body. */
export function pageHead({ title, version, style = '', scripts = false }: PageHead): Markup {
  const policy = scripts
    ? `${closed}; script-src 'unsafe-inline'; worker-src blob:; child-src blob:`
    : closed;
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="generator" content="plimsoll ${version}">
<title>${title}</title>
<style>${new Markup(pageStyle)}${new Markup(style)}</style>
</head>`;
}

/**
 * The look of the page. Colours are named once for light, dark and paper; every text colour keeps
 * a contrast of at least 4.5 to 1 on its ground. The accent belongs to the load line and to what
 * lies beyond it.
 */
const colours = `
:root {
  color-scheme: light dark;
  --ground: #fcfbf8; --card: #ffffff; --ink: #1a2028; --soft: #5a6572; --rule: #e4e1d9;
  --water: #2f6690; --water-fill: #2f669022; --band: #2f669038; --allocated: #0f7a6c; --reserved: #8a6d1f;
  --accent: #c1301c; --accent-fill: #c1301c1c; --warning: #8a5a00; --critical: #b3261e; --on-mark: #ffffff;
  --chip: #efede6;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #10151b; --card: #161c24; --ink: #e6e9ed; --soft: #9ba7b4; --rule: #29313b;
    --water: #7fb2dc; --water-fill: #7fb2dc22; --band: #7fb2dc3d; --allocated: #5fd0bd; --reserved: #d9b861;
    --accent: #ff7b62; --accent-fill: #ff7b6224; --warning: #e6b04c; --critical: #ff8a80; --on-mark: #10151b;
    --chip: #232b35;
  }
}
`;

const type = `
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--ground); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", "Liberation Sans", Arial, sans-serif;
  font-variant-numeric: tabular-nums; -webkit-text-size-adjust: 100%;
}
main { max-width: 1040px; margin: 0 auto; padding: 40px 24px 64px; }
h1, h2, h3 { line-height: 1.2; font-weight: 600; text-wrap: balance; }
h1 { font-size: 30px; letter-spacing: -0.015em; margin: 0; }
h2 { font-size: 21px; letter-spacing: -0.01em; margin: 0; overflow-wrap: anywhere; }
h3 { font-size: 13px; color: var(--soft); margin: 24px 0 6px; letter-spacing: 0.02em; }
p { margin: 0; max-width: 68ch; }
a { color: inherit; text-decoration-color: var(--soft); text-underline-offset: 3px; }
.soft, small { color: var(--soft); font-size: 13.5px; }
.masthead { display: flex; gap: 18px; align-items: center; }
.masthead > div { min-width: 0; overflow-wrap: anywhere; }
.emblem { flex: none; width: 60px; height: 40px; fill: none; stroke: var(--accent); stroke-width: 3; }
.lede { font-size: 19px; line-height: 1.45; margin: 26px 0 0; max-width: 60ch; }
.facts { display: flex; flex-wrap: wrap; gap: 6px 28px; margin: 22px 0 0; padding: 14px 0; border: solid var(--rule); border-width: 1px 0; }
.facts div { display: flex; gap: 8px; align-items: baseline; }
.facts dt { color: var(--soft); font-size: 13.5px; }
.facts dd { margin: 0; }
section { margin-top: 44px; }
.device { border-top: 2px solid var(--ink); padding-top: 16px; }
.heading { display: flex; flex-wrap: wrap; gap: 4px 12px; align-items: baseline; }
.heading h2 span { color: var(--soft); font-weight: 400; }
.tag { font-size: 12px; line-height: 1.5; padding: 1px 8px; border-radius: 99px; background: var(--chip); color: var(--soft); white-space: nowrap; font-weight: 500; }
.tag.simulated { background: var(--ink); color: var(--ground); font-weight: 600; }
.tag.interrupted, .tag.gone { background: none; box-shadow: inset 0 0 0 1px var(--critical); color: var(--critical); }
.findings { list-style: none; margin: 14px 0 0; padding: 0; }
.findings li { padding: 5px 0 5px 16px; border-left: 3px solid var(--rule); max-width: 76ch; overflow-wrap: anywhere; }
.findings .warning { border-color: var(--warning); }
.findings .critical { border-color: var(--critical); }
.findings .tag { margin-left: 4px; }
.advice { margin: 8px 0 0; padding-left: 19px; }
.advice li { padding: 2px 0; max-width: 68ch; }
`;

const tables = `
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 15px; }
th, td { text-align: left; padding: 7px 20px 7px 0; border-bottom: 1px solid var(--rule); vertical-align: middle; }
th:last-child, td:last-child { padding-right: 0; }
thead th { font-size: 13px; font-weight: 500; color: var(--soft); white-space: nowrap; }
tbody th { font-weight: 600; }
td.number, th.number { text-align: right; white-space: nowrap; }
td.name { overflow-wrap: anywhere; min-width: 9em; }
td small, th small { display: block; font-weight: 400; }
.overview .right { text-align: right; }
.spark { display: block; width: 160px; height: 30px; }
.grid { display: grid; grid-template-columns: repeat(auto-fill, minmax(180px, 1fr)); gap: 0 24px; margin: 0; }
.grid div { border-bottom: 1px solid var(--rule); padding: 9px 0; }
.grid dt { color: var(--soft); font-size: 13px; }
.grid dd { margin: 0; font-size: 18px; }
.grid dd small { font-size: 13px; margin-left: 4px; }
.meter { display: inline-block; width: 90px; height: 7px; background: var(--chip); border-radius: 2px; overflow: hidden; vertical-align: 1px; margin-left: 10px; }
.meter i { display: block; height: 100%; background: var(--water); }
.alerts { list-style: none; margin: 12px 0 0; padding: 0; }
.alerts li { display: grid; grid-template-columns: 28px 7.5em 1fr; gap: 0 12px; padding: 9px 0; border-bottom: 1px solid var(--rule); align-items: baseline; }
.alerts .mark { width: 22px; height: 22px; border-radius: 50%; display: grid; place-items: center; font-size: 12px; font-weight: 600; color: var(--on-mark); background: var(--warning); }
.alerts .critical .mark { background: var(--critical); }
.alerts .cleared .mark { background: none; color: var(--soft); box-shadow: inset 0 0 0 1px var(--soft); }
.alerts p { overflow-wrap: anywhere; }
footer { margin-top: 56px; padding-top: 16px; border-top: 1px solid var(--rule); }
footer p + p { margin-top: 6px; }
`;

const charts = `
figure { margin: 20px 0 0; }
figcaption { display: flex; flex-wrap: wrap; gap: 4px 20px; font-size: 13.5px; color: var(--soft); margin-top: 4px; }
figcaption .key { display: inline-flex; align-items: center; gap: 7px; }
figcaption svg { width: 22px; height: 12px; }
.readout { min-height: 1.6em; font-size: 13.5px; color: var(--soft); margin-top: 4px; max-width: none; }
.chart { display: block; width: 100%; height: auto; overflow: visible; }
.chart.narrow { display: none; }
.chart text { font-size: 12px; fill: var(--soft); }
.axis line { stroke: var(--rule); }
.area { fill: var(--water-fill); }
.band { fill: var(--band); }
.line { fill: none; stroke-width: 1.6; stroke-linejoin: round; }
.line.used { stroke: var(--water); stroke-width: 2; }
.line.allocated { stroke: var(--allocated); stroke-width: 1.2; }
.line.reserved { stroke: var(--reserved); stroke-dasharray: 5 3; }
.capacity line { stroke: var(--ink); stroke-width: 1.2; }
.load-line line { stroke: var(--accent); stroke-width: 1.8; }
.chart .load-line text { fill: var(--accent); font-weight: 600; paint-order: stroke; stroke: var(--ground); stroke-width: 4px; stroke-linejoin: round; }
.chart .capacity text { paint-order: stroke; stroke: var(--ground); stroke-width: 4px; stroke-linejoin: round; }
.disc { fill: var(--ground); stroke: var(--accent); stroke-width: 1.8; }
.load { stroke: var(--accent); stroke-width: 1; }
.cone { fill: var(--accent-fill); }
.expected { fill: none; stroke: var(--accent); stroke-width: 1.6; stroke-dasharray: 2 4; stroke-linecap: round; }
.eta { fill: var(--accent); }
.now line { stroke: var(--soft); stroke-width: 1; stroke-dasharray: 1 3; }
.alert line { stroke: var(--warning); stroke-dasharray: 3 3; opacity: .55; }
.alert circle { fill: var(--warning); }
.alert.critical line { stroke: var(--critical); }
.alert.critical circle { fill: var(--critical); }
.chart .alert text { fill: var(--on-mark); font-size: 10.5px; font-weight: 600; }
.columns rect { fill: transparent; }
.cursor { stroke: var(--ink); stroke-width: 1; pointer-events: none; visibility: hidden; }
`;

const media = `
@media (max-width: 640px) {
  main { padding: 24px 16px 48px; }
  h1 { font-size: 25px; }
  .lede { font-size: 17px; }
  .emblem { width: 48px; height: 32px; }
  .chart.wide { display: none; }
  .chart.narrow { display: block; }
  .facts { flex-direction: column; }
  .facts dt { width: 7.5em; }
  .grid { grid-template-columns: 1fr 1fr; }
  .meter { display: none; }
  .alerts li { grid-template-columns: 28px 1fr; }
  .alerts li > :last-child { grid-column: 2; }
  .overview thead { position: absolute; clip-path: inset(50%); }
  .overview tr { display: grid; grid-template-columns: 1fr auto; gap: 2px 12px; padding: 10px 0; border-bottom: 1px solid var(--rule); }
  .overview tr:first-child { border-top: 1px solid var(--rule); }
  .overview th, .overview td { border: 0; padding: 0; }
  .stacked thead, .flowing thead { position: absolute; clip-path: inset(50%); }
  .stacked tr { display: block; padding: 9px 0; border-bottom: 1px solid var(--rule); }
  .stacked th, .stacked td { display: flex; justify-content: space-between; gap: 16px; border: 0; padding: 2px 0; }
  .stacked td.number, .stacked td { text-align: right; white-space: normal; }
  .stacked [data-label]::before { content: attr(data-label); flex: none; color: var(--soft); font-size: 13.5px; font-weight: 400; }
  .stacked .wide-cell { display: block; text-align: left; }
  .flowing tr { display: flex; flex-wrap: wrap; gap: 2px 14px; padding: 8px 0; border-bottom: 1px solid var(--rule); }
  .flowing th, .flowing td, .flowing td.number { border: 0; padding: 0; min-width: 0; text-align: left; white-space: normal; }
  .flowing td.name { flex: 0 1 auto; }
  .overview td.trend { grid-row: 2; grid-column: 2; text-align: right; align-self: center; }
}
@media print {
  :root {
    color-scheme: light;
    --ground: #fff; --card: #fff; --ink: #000; --soft: #333; --rule: #bbb;
    --water: #000; --water-fill: #0000000d; --band: #00000026; --allocated: #000; --reserved: #444;
    --accent: #000; --accent-fill: #0000001a; --warning: #333; --critical: #000; --on-mark: #fff; --chip: #fff;
  }
  @page { margin: 16mm; }
  body { font-size: 10.5pt; }
  main { max-width: none; padding: 0; }
  h1 { font-size: 20pt; } h2 { font-size: 14pt; }
  section { margin-top: 22pt; }
  .lede { font-size: 12pt; margin-top: 12pt; }
  .chart.wide { display: block; } .chart.narrow { display: none; }
  .line.allocated { stroke-dasharray: 1 2; }
  .load-line line { stroke-width: 2.4; }
  .tag { box-shadow: inset 0 0 0 1px #777; color: #000; }
  .tag.simulated { box-shadow: inset 0 0 0 1.5px #000; background: #fff; color: #000; }
  .scroll { overflow: visible; }
  .readout, .cursor, .columns { display: none; }
  figure, tr, .alerts li, .findings li, .grid div { break-inside: avoid; }
  h2, h3, .heading, .heading + p { break-after: avoid; }
  .findings { break-inside: avoid; }
  .chart text { font-size: 14px; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
`;

const pageStyle = [colours, type, tables, charts, media].join('');

/** The mark on a ship's hull: a disc and the line that the water must not pass. */
export function emblem(): Markup {
  return html`<svg class="emblem" viewBox="0 0 48 32" width="48" height="32" aria-hidden="true"><circle cx="24" cy="16" r="11"/><line x1="3" x2="45" y1="16" y2="16"/></svg>`;
}

/** The same mark on a chart, with its centre at x, y. */
export function emblemAt(x: number, y: number): Markup {
  return html`<circle class="disc" cx="${x}" cy="${y}" r="5"/>`;
}

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
