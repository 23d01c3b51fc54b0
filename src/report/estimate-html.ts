import type { ModelSource } from '../estimate/model-source.js';
import type { Estimate, Workload } from '../estimate/types.js';
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
} from './html/estimate-sections.js';
import { emblem, html, type Markup, pageHead, unbroken } from './html/page-head.js';
import { sourceWords, workloadFacts } from './workload-words.js';

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
