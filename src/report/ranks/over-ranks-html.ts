import type { ModelSource } from '../../estimate/model-source.js';
import type { RankPoint } from '../../estimate/over-ranks.js';
import type { Part, Workload } from '../../estimate/types.js';
import { fitOf } from '../../plan/fit/fit.js';
import { formatBytes } from '../../units/bytes.js';
import { emblem } from '../html/emblem.js';
import { estimateStyle } from '../html/estimate-style.js';
import { html, type Markup, unbroken } from '../html/markup.js';
import { pageHead } from '../html/page-head.js';
import { ranksChart, ranksStyle } from '../html/ranks-chart.js';
import { sourceWords, workloadFacts } from '../workload-words.js';
import {
  betweenNote,
  fitWords,
  type OverRanks,
  partsOver,
  ranksVerdict,
} from './over-ranks-words.js';

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
