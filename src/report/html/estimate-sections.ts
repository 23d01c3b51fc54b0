import type { Estimate, PartBytes } from '../../estimate/types.js';
import { formatBytes } from '../../units/bytes.js';
import {
  answersOf,
  type EstimateGpu,
  intervalText,
  largestModules,
  makesItFit,
  partMeaning,
  settingOptions,
} from '../estimate-words.js';
import { percentWords } from '../words.js';
import { html, type Markup, unbroken } from './markup.js';

/** More of them would be a file, not a page. */
const maxModules = 12;

/** Columns of words stand to the left, figures to the right. */
const wordColumns = new Set(['Interval', 'What it is', 'Option', 'Note', 'Basis']);

/** The four answers, with what each means. */
export function answerTable(estimate: Estimate, gpu: EstimateGpu): Markup {
  const rows = answersOf(estimate, gpu).map(
    (answer) =>
      html`<tr><th scope="row">${answer.name}</th><td class="number"><b>${unbroken(formatBytes(answer.bytes))}</b></td><td>${unbroken(intervalText(estimate, answer))}</td><td class="name">${answer.what}</td></tr>`,
  );
  return table(['Peak', 'Memory', 'Interval', 'What it is'], rows);
}

export function breakdownTable({ breakdown, peak }: Estimate): Markup {
  const rows = breakdown.map(
    ({ part, bytes }) =>
      html`<tr><th scope="row" class="part"><span class="swatch part-${part}"></span>${part}</th><td class="number">${unbroken(formatBytes(bytes))}</td><td class="number">${share(bytes, peak.deviceBytes)}</td><td class="name">${partMeaning(part)}</td></tr>`,
  );
  return table(['Part', 'Memory', 'Share', 'What it is'], rows);
}

/** What each phase of a program takes; nothing for a model. */
export function phaseTable({ phases = [] }: Estimate): Markup[] {
  if (phases.length === 0) return [];
  const rows = phases.map(
    ({ phase, reservedBytes, allocatedBytes, makesPeak }) =>
      html`<tr><th scope="row">${phase}</th><td class="number">${unbroken(formatBytes(reservedBytes))}</td><td class="number">${unbroken(formatBytes(allocatedBytes))}</td><td class="name">${makesPeak ? 'makes the peak' : ''}</td></tr>`,
  );
  return [
    html`<section aria-labelledby="phases"><h2 id="phases">By phase</h2>${table(['Phase', 'Reserved', 'Allocated', 'Note', 'Basis'], rows)}</section>`,
  ];
}

/** Whose it is, for the parts of which that is known. */
export function moduleTables({ breakdown }: Estimate): Markup[] {
  return breakdown.flatMap((entry) => {
    const { part, modules = [] } = entry;
    // What lies outside of all modules alone tells nothing.
    if (!modules.some(({ module }) => module !== '')) return [];
    const id = `modules-${part}`;
    return [
      html`<section aria-labelledby="${id}"><h2 id="${id}">${part === 'temporary' ? 'Temporary memory' : 'Activations'} by module</h2><p class="soft">At the peak instant; a star stands for the numbers of modules that are alike.</p>${moduleTable(entry)}</section>`,
    ];
  });
}

function moduleTable({ bytes: whole, modules = [] }: PartBytes): Markup {
  const { shown, others } = largestModules(modules, maxModules);
  const rows = shown.map(
    ({ module, count, bytes }) =>
      html`<tr><td class="name">${module === '' ? 'outside of the modules' : html`<code>${module}</code>`}</td><td class="number">${count}</td><td class="number">${unbroken(formatBytes(bytes))}</td><td class="number">${share(bytes, whole)}${meter(bytes / whole)}</td></tr>`,
  );
  if (others) {
    rows.push(
      html`<tr><td class="name">${others.count} others</td><td></td><td class="number">${unbroken(formatBytes(others.bytes))}</td><td class="number">${share(others.bytes, whole)}${meter(others.bytes / whole)}</td></tr>`,
    );
  }
  return table(['Module', 'Count', 'Memory', 'Share'], rows);
}

/** What other settings would save. */
export function savingTable(estimate: Estimate, gpu: EstimateGpu): Markup | undefined {
  const { savings = [] } = estimate;
  if (savings.length === 0) return undefined;
  const rows = savings.map(
    (saving) =>
      html`<tr><th scope="row">${saving.change}</th><td class="number saves">${unbroken(formatBytes(saving.savesBytes))}</td><td class="number">${unbroken(formatBytes(saving.leastCapacityBytes))}</td><td><code>${settingOptions(saving.settings)}</code></td><td class="basis">${makesItFit(saving, estimate, gpu) && html`<span class="tag">then it fits</span> `}<span class="soft">${saving.basis === 'trace' ? 'traced' : 'by formula'}</span></td></tr>`,
  );
  return html`<section aria-labelledby="savings"><h2 id="savings">Ways to save memory</h2><p class="soft">What each saves of the least capacity, one setting at a time; what two of them save together is another figure.</p>${table(['Change', 'Saves', 'Least capacity', 'Option', 'Basis'], rows)}</section>`;
}

function share(bytes: number, whole: number): string {
  return unbroken(percentWords((bytes / whole) * 100, 1));
}

function meter(part: number): Markup {
  return html`<span class="meter" aria-hidden="true"><i style="width: ${(part * 100).toFixed(1)}%"></i></span>`;
}

function table(heads: readonly string[], rows: readonly Markup[]): Markup {
  const cells = heads.map((head, index) =>
    index === 0 || wordColumns.has(head)
      ? html`<th scope="col">${head}</th>`
      : html`<th scope="col" class="number">${head}</th>`,
  );
  return html`<div class="scroll"><table class="flowing"><thead><tr>${cells}</tr></thead><tbody>${rows}</tbody></table></div>`;
}
