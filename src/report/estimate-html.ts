import type { ModelSource } from '../estimate/model-source.js';
import type { RankPoint } from '../estimate/over-ranks.js';
import type { Estimate, Part, Workload } from '../estimate/types.js';
import { fitOf } from '../plan/fit/fit.js';
import { formatBytes } from '../units/bytes.js';
import { shellWords } from '../units/words.js';
import { answersOf, type EstimateGpu, intervalText, verdictOf } from './estimate-words.js';
import {
  answerTable,
  breakdownBar,
  breakdownTable,
  cardBar,
  estimateStyle,
  moduleTables,
  phaseTable,
  savingTable,
  sourceWords,
  spillTable,
  workloadFacts,
} from './html/estimate-sections.js';
import { emblem, html, type Markup, pageHead, unbroken } from './html/page-head.js';
import {
  betweenNote,
  fitWords,
  type OverRanks,
  partsOver,
  ranksVerdict,
} from './text/estimate-text.js';

export type EstimatePage = {
  readonly estimate: Estimate;
  readonly gpu: EstimateGpu;
  /** Of plimsoll. */
  readonly version: string;
} & (
  | { readonly source: ModelSource; readonly workload: Workload }
  /** A program as it is, as it was typed. */
  | { readonly program: readonly string[] }
);

/**
 * An estimate as one HTML page that stands alone: no file beside it, nothing loaded, no script.
 *
 * @example
 * await writeFile('estimate.html', renderEstimateHtml({ estimate, source, workload, gpu, version }));
 */
export function renderEstimateHtml(page: EstimatePage): string {
  const { estimate, gpu, version } = page;
  const verdict = verdictOf(estimate, gpu);
  const subject = 'program' in page ? shellWords(page.program) : sourceWords(page.source);
  const known = 'program' in page ? [] : workloadFacts(page.workload, page.source);
  const facts = [...known, ['card', gpu.name] as const];
  return html`${pageHead({ title: `Memory estimate, ${subject}`, version, style: estimateStyle })}
<body>
<main>
<header>
<div class="masthead">${emblem()}<div><h1>Memory estimate</h1>
<p class="soft">${subject} <span class="tag">estimated, by ${estimate.method}</span></p></div></div>
<p class="lede">${unbroken(ledeWords(estimate, gpu))} <span class="${verdict.fits}">${unbroken(verdict.sentence)}</span></p>
<dl class="facts">${facts.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
</header>
<section aria-labelledby="answers"><h2 id="answers">What it needs at its peak</h2>
<figure>${cardBar(estimate, gpu)}</figure>
${answerTable(estimate, gpu)}</section>
<section aria-labelledby="breakdown"><h2 id="breakdown">What fills it</h2>
<figure>${breakdownBar(estimate)}</figure>
${breakdownTable(estimate)}</section>
${phaseTable(estimate)}
${moduleTables(estimate)}
${savingTable(estimate, gpu)}
${spillTable(estimate)}
${notesSection(estimate)}
${footer(version)}
</main>
</body>
</html>
`.text;
}

/** `It takes 23.1 GiB on one NVIDIA H200 at its peak (95 %: 22.4 to 23.8 GiB).` */
function ledeWords(estimate: Estimate, gpu: EstimateGpu): string {
  const device = answersOf(estimate, gpu).find(({ name }) => name === 'device');
  const interval = device === undefined ? '' : ` (${intervalText(estimate, device)})`;
  return `It takes ${formatBytes(estimate.peak.deviceBytes)} on one ${gpu.name} at its peak${interval}.`;
}

function notesSection({ notes }: Estimate): Markup | undefined {
  if (notes.length === 0) return undefined;
  return html`<section aria-labelledby="notes"><h2 id="notes">What it rests on</h2><ul class="findings">${notes.map(
    (note) => html`<li>${unbroken(note)}</li>`,
  )}</ul></section>`;
}

function footer(version: string): Markup {
  return html`<footer class="soft">
<p>All figures are <b>estimated</b>: no GPU was used. An interval says where the real figure lies with the confidence named.</p>
<p>GiB are 1024<sup>3</sup> bytes. Made by plimsoll ${version}.</p>
</footer>`;
}

export interface OverRanksPage {
  readonly found: OverRanks;
  readonly source: ModelSource;
  readonly workload: Workload;
  /** Of plimsoll. */
  readonly version: string;
}

/**
 * What fills a rank against the number of ranks, as one HTML page that stands alone.
 *
 * @example
 * await writeFile('ranks.html', renderOverRanksHtml({ found, source, workload, version }));
 */
export function renderOverRanksHtml({ found, source, workload, version }: OverRanksPage): string {
  const { overRanks, gpu, parallel, notes } = found;
  const subject = sourceWords(source);
  const facts = [...workloadFacts(workload, source), ['shared by', parallel], ['card', gpu.name]];
  const between = betweenNote(overRanks);
  const names = partsOver(overRanks);
  return html`${pageHead({ title: `Memory over ranks, ${subject}`, version, style: estimateStyle + ranksStyle })}
<body>
<main>
<header>
<div class="masthead">${emblem()}<div><h1>Memory of one rank</h1>
<p class="soft">${subject} <span class="tag">estimated, by trace</span></p></div></div>
<p class="lede">${unbroken(ranksVerdict(found))}</p>
<dl class="facts">${facts.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
</header>
<section aria-labelledby="ranks"><h2 id="ranks">What fills a rank, by the number of GPUs</h2>
<figure>${ranksChart(overRanks, gpu.capacityBytes)}
<ul class="legend">${names.map((part) => html`<li><span class="swatch part-${part}"></span>${part}</li>`)}</ul></figure>
${pointTable(overRanks, names, gpu.capacityBytes)}</section>
<section aria-labelledby="notes"><h2 id="notes">What it rests on</h2><ul class="findings">${[
    ...(between === undefined ? [] : [between]),
    ...notes,
  ].map((note) => html`<li>${unbroken(note)}</li>`)}</ul></section>
<footer class="soft"><p>All figures are <b>estimated</b>: no GPU was used. GiB are 1024<sup>3</sup> bytes. Made by plimsoll ${version}.</p></footer>
</main>
</body>
</html>
`.text;
}

/** On a narrow screen each figure stands beside its name. */
function pointTable(
  points: readonly RankPoint[],
  names: readonly Part[],
  capacityBytes: number,
): Markup {
  const rows = points.map((point) => {
    const { ranks, traced, peak, breakdown } = point;
    const fit = fitOf(point, capacityBytes);
    const bytesOf = (part: Part) => breakdown.find((one) => one.part === part)?.bytes ?? 0;
    return html`<tr><th scope="row" data-label="GPUs">${ranks.count}</th>${figure('Device', peak.deviceBytes)}${figure('Least capacity', peak.leastCapacityBytes)}${names.map(
      (part) => figure(part, bytesOf(part)),
    )}<td class="${fit}" data-label="Fit">${fitWords[fit]}</td><td data-label="Basis">${traced ? 'traced' : 'between'}</td></tr>`;
  });
  const heads = ['Device', 'Least capacity', ...names].map(
    (name) => html`<th scope="col" class="number">${name}</th>`,
  );
  return html`<div class="scroll"><table class="stacked"><thead><tr><th scope="col">GPUs</th>${heads}<th scope="col">Fit</th><th scope="col">Basis</th></tr></thead><tbody>${rows}</tbody></table></div>`;
}

function figure(name: string, bytes: number): Markup {
  return html`<td class="number" data-label="${name}">${unbroken(formatBytes(bytes))}</td>`;
}

const height = 380;
/** Room for the figures beside and below the columns. */
const [left, bottom, top] = [10, 34, 26];
/** Of the width that each count has, what its column takes. */
const columnShare = 0.62;
/** The width of a letter, with the space to the next label. */
const letter = 7.5;

/**
 * One column for each count of ranks, made of its parts; the line is the memory of the card. It is drawn
 * twice, the second time for narrow screens: letters that shrink with a picture cannot be read there.
 */
function ranksChart(points: readonly RankPoint[], capacityBytes: number): Markup {
  return html`${chartOf(points, capacityBytes, 'wide', 1000)}
${chartOf(points, capacityBytes, 'narrow', 480)}`;
}

function chartOf(
  points: readonly RankPoint[],
  capacityBytes: number,
  look: 'wide' | 'narrow',
  width: number,
): Markup {
  const most = Math.max(capacityBytes, ...points.map(({ peak }) => peak.deviceBytes)) * 1.06;
  const y = (bytes: number) => height - bottom - (bytes / most) * (height - bottom - top);
  const step = (width - left) / points.length;
  const names = points.map(({ ranks }) => `${ranks.count}${look === 'wide' ? ' GPUs' : ''}`);
  const sizes = points.map(({ peak }) => formatBytes(peak.deviceBytes));
  const [namedEvery, sizedEvery] = [everyThat(names, step), everyThat(sizes, step)];
  const columns = points.map((point, index) => {
    const x = left + step * (index + (1 - columnShare) / 2);
    const label = (text: string | undefined, at: number) =>
      html`<text class="label" x="${(x + (step * columnShare) / 2).toFixed(1)}" y="${at.toFixed(1)}">${text ?? ''}</text>`;
    const size = index % sizedEvery === 0 && label(sizes[index], y(point.peak.deviceBytes) - 7);
    const name = index % namedEvery === 0 && label(names[index], height - 10);
    return html`<g>${stacked(point, x, step * columnShare, y)}${size}${name}</g>`;
  });
  const line = y(capacityBytes).toFixed(1);
  const words = points.map(({ ranks }, index) => `${ranks.count} GPUs: ${sizes[index]}`);
  return html`<svg class="chart ranks ${look}" viewBox="0 0 ${width} ${height}" role="img" aria-label="What fills one rank. ${words.join(', ')}. The card has ${formatBytes(capacityBytes)}.">
<line class="axis" x1="0" x2="${width}" y1="${height - bottom}" y2="${height - bottom}"/>
${columns}
<line class="card" x1="0" x2="${width}" y1="${line}" y2="${line}"/>
<text class="card-label" x="${width}" y="${(Number(line) - 6).toFixed(1)}">the card: ${formatBytes(capacityBytes)}</text>
</svg>`;
}

/** Each of so many labels has room; the table has the others. */
function everyThat(labels: readonly string[], step: number): number {
  return Math.ceil((Math.max(...labels.map(({ length }) => length)) * letter) / step);
}

function stacked(
  { breakdown }: RankPoint,
  x: number,
  columnWidth: number,
  y: (bytes: number) => number,
): Markup[] {
  let before = 0;
  return breakdown.map(({ part, bytes }) => {
    const from = y(before);
    before += bytes;
    const to = y(before);
    return html`<rect class="part-${part}" x="${x.toFixed(1)}" y="${to.toFixed(1)}" width="${columnWidth.toFixed(1)}" height="${(from - to).toFixed(1)}"><title>${part}: ${formatBytes(bytes)}</title></rect>`;
  });
}

/** What the page needs beside the look of an estimate's. */
const ranksStyle = `
.ranks .axis { stroke: var(--ink); stroke-opacity: .35; }
.ranks .card { stroke: var(--ink); stroke-width: 2; stroke-dasharray: 7 5; }
.chart.ranks text { fill: var(--ink); }
.chart.ranks .label { font-size: 13px; text-anchor: middle; }
.chart.ranks .card-label { font-size: 13px; text-anchor: end; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 20px; list-style: none; padding: 0; margin: 12px 0 0; }
td.no { color: var(--critical); }
td.tightly { color: var(--warning); }
`;
