import type { ModelSource } from '../../estimate/model-source.js';
import type { RankPoint } from '../../estimate/over-ranks.js';
import type { Part, Workload } from '../../estimate/types.js';
import { fitOf } from '../../plan/fit/fit.js';
import { formatBytes } from '../../units/bytes.js';
import { estimateStyle } from '../html/estimate-sections.js';
import { emblem, html, type Markup, pageHead, unbroken } from '../html/page-head.js';
import { sourceWords, workloadFacts } from '../workload-words.js';
import {
  betweenNote,
  fitWords,
  type OverRanks,
  partsOver,
  ranksVerdict,
} from './over-ranks-text.js';

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
