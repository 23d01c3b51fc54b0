import type { ModelSource } from '../estimate/model-source.js';
import type { Plan, PlanOption } from '../plan/fit/types.js';
import { asPython, type FromPretrainedArguments } from '../plan/quantization/bits-and-bytes.js';
import { formatBytes } from '../units/bytes.js';
import type { EstimateGpu } from './estimate-words.js';
import {
  breakdownBar,
  breakdownTable,
  estimateStyle,
  optionBar,
  planStyle,
  sourceWords,
} from './html/estimate-sections.js';
import { emblem, html, Markup, pageHead, unbroken } from './html/page-head.js';
import {
  batchWords,
  costWords,
  fitWords,
  optionWords,
  type PlanBudgetWords,
  planVerdict,
  settingRows,
} from './plan-words.js';

export interface PlanPage {
  readonly source: ModelSource;
  /** Tokens of a sequence, and pixels of an image's edge, where they were told. */
  readonly sequence?: number | undefined;
  readonly image?: number | undefined;
  readonly plan: Plan;
  readonly budget: PlanBudgetWords;
  readonly gpu: Pick<EstimateGpu, 'name'>;
  readonly loading?: FromPretrainedArguments | undefined;
  /** Of plimsoll. */
  readonly version: string;
}

/**
 * A plan as one HTML page that stands alone: no file beside it, nothing loaded, no script.
 *
 * @example
 * await writeFile('plan.html', renderPlanHtml({ source, plan, budget, gpu, version }));
 */
export function renderPlanHtml(page: PlanPage): string {
  const { source, plan, budget, loading, version } = page;
  const { estimate } = plan;
  const verdict = planVerdict(plan, budget);
  return html`${pageHead({ title: `Memory plan, ${sourceWords(source)}`, version, style: estimateStyle + planStyle })}
<body>
<main>
<header>
<div class="masthead">${emblem()}<div><h1>Memory plan</h1>
<p class="soft">${sourceWords(source)} <span class="tag">estimated, by ${estimate.method}</span></p></div></div>
<p class="lede ${verdict.fits}">${unbroken(verdict.sentence)}</p>
${plan.givesUp.length > 0 && html`<p class="soft">Given up: ${plan.givesUp.join('; ')}.</p>`}
<dl class="facts">${factsOf(page).map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
</header>
<section aria-labelledby="settings"><h2 id="settings">${plan.fits ? 'What to set' : 'What comes nearest'}</h2>
<dl class="grid">${settingRows(plan.settings).map(
    ([name, value, more]) =>
      html`<div><dt>${name}</dt><dd>${value}${more !== '' && html` <small>${more}</small>`}</dd></div>`,
  )}</dl></section>
<section aria-labelledby="breakdown"><h2 id="breakdown">What then fills the device</h2>
<figure>${breakdownBar(estimate)}</figure>
${breakdownTable(estimate)}</section>
${loading && loadingSection(loading)}
${optionSection(plan, budget)}
${notesSection(plan)}
<footer class="soft">
<p>All figures are <b>estimated</b>: no GPU was used. Times are a model that orders settings, not a measurement.</p>
<p>GiB are 1024<sup>3</sup> bytes. Made by plimsoll ${version}.</p>
</footer>
</main>
</body>
</html>
`.text;
}

function factsOf({ plan, budget, gpu, sequence, image }: PlanPage): (readonly [string, string])[] {
  return [
    ['for', plan.settings.optimizer === 'none' ? 'inference' : 'training'],
    ...(sequence === undefined ? [] : [['sequence', String(sequence)] as const]),
    ...(image === undefined ? [] : [['image', String(image)] as const]),
    ['memory', unbroken(formatBytes(budget.memoryBytes))],
    ['context', unbroken(formatBytes(budget.contextBytes))],
    ['card', gpu.name],
  ];
}

/** The chosen way first, then the others, each against the budget. */
function optionSection(plan: Plan, budget: PlanBudgetWords): Markup {
  const { estimate, alternatives, notes: _, ...rest } = plan;
  const chosen = { ...rest, method: estimate.method, peak: estimate.peak };
  const all = [chosen, ...alternatives];
  const widest = Math.max(budget.memoryBytes, ...all.map(({ peak }) => peak.leastCapacityBytes));
  const rows = all.map((option) => optionRow(option, chosen, widest, budget));
  return html`<section aria-labelledby="options"><h2 id="options">What was weighed</h2>
<p class="soft">The line is the budget. Time is that of a sample, against the fastest with nothing given up.</p>
<div class="scroll"><table class="options stacked"><thead><tr><th scope="col">Fits</th><th scope="col">How</th><th scope="col" class="number">Batch</th><th scope="col" class="number">Needs</th><th scope="col">Against the budget</th><th scope="col" class="number">Time</th></tr></thead><tbody>${rows}</tbody></table></div></section>`;
}

function optionRow(
  option: PlanOption,
  chosen: PlanOption,
  widest: number,
  budget: PlanBudgetWords,
): Markup {
  const { settings, givesUp, method, relativeCost } = option;
  const needed = option.peak.leastCapacityBytes;
  const isChosen = option === chosen;
  return html`<tr${isChosen && html` class="chosen"`}><td data-label="Fits"><span class="fits ${fitWords(option)}">${fitWords(option)}</span></td><th scope="row" class="wide-cell">${optionWords(settings)}${isChosen && html` <span class="tag">chosen</span>`}${method !== chosen.method && html` <span class="tag">by ${method}</span>`}${givesUp.map((one) => html`<small>gives up: ${one}</small>`)}</th><td class="number" data-label="Batch">${batchWords(settings)}</td><td class="number" data-label="Needs">${unbroken(formatBytes(needed))}</td><td class="wide-cell">${optionBar(needed, budget.memoryBytes, widest)}</td><td class="number" data-label="Time">${costWords(relativeCost)}</td></tr>`;
}

function loadingSection(loading: FromPretrainedArguments): Markup {
  return html`<section aria-labelledby="loading"><h2 id="loading">How to load it</h2><pre><code>${asPython(
    loading,
  )
    .split('\n')
    .map((line) => [line, new Markup('\n')])}</code></pre></section>`;
}

function notesSection({ notes, estimate }: Plan): Markup | undefined {
  const all = [...notes, ...estimate.notes];
  if (all.length === 0) return undefined;
  return html`<section aria-labelledby="notes"><h2 id="notes">What it rests on</h2><ul class="findings">${all.map(
    (note) => html`<li>${unbroken(note)}</li>`,
  )}</ul></section>`;
}
