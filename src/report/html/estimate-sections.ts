import { basename, dirname } from 'node:path';
import type { ModelSource } from '../../estimate/model-source.js';
import type { Estimate, PartBytes, Workload } from '../../estimate/types.js';
import { formatBytes } from '../../units/bytes.js';
import { formatCount } from '../../units/words.js';
import {
  answersOf,
  type EstimateGpu,
  intervalText,
  largestModules,
  makesItFit,
  partClasses,
  partMeaning,
  partVariables,
  settingOptions,
  spillTitle,
  times,
} from '../estimate-words.js';
import { percentWords } from '../words.js';
import { html, type Markup, unbroken } from './page-head.js';

const light = partVariables('light');

/** What an estimate's page needs beside the look of all pages. */
export const estimateStyle = `
:root { ${light} }
@media (prefers-color-scheme: dark) { :root { ${partVariables('dark')} } }
${partClasses}
.swatch { display: inline-block; width: 12px; height: 12px; border-radius: 2px; margin-right: 9px; vertical-align: -1px; }
.lede .no { color: var(--critical); }
.lede .barely { color: var(--warning); }
.bar { display: block; width: 100%; height: 34px; }
.bar .ground { fill: var(--chip); }
.bar .whisker { fill: var(--ink); opacity: .28; }
.bar .likely { fill: var(--water); }
.bar .over { fill: var(--critical); }
.bar .capacity { fill: var(--ink); }
.ends { display: flex; justify-content: space-between; gap: 20px; }
code { font: 13.5px/1.5 ui-monospace, "SF Mono", Menlo, Consolas, monospace; overflow-wrap: anywhere; }
td code, td.basis, th.part { white-space: nowrap; }
.saves { color: var(--allocated); font-weight: 600; }
h2 + p { margin-top: 6px; }
h2 + p + .scroll, figure + .scroll { margin-top: 14px; }
@media print { :root { ${light} } .swatch { print-color-adjust: exact; } }
`;

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
      html`<tr><th scope="row" class="part"><span class="swatch part-${part}"></span>${part}</th><td class="number">${unbroken(formatBytes(bytes))}</td><td class="number">${shareOf(bytes, peak.deviceBytes)}</td><td class="name">${partMeaning(part)}</td></tr>`,
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
      html`<tr><td class="name">${module === '' ? 'outside of the modules' : html`<code>${module}</code>`}</td><td class="number">${count}</td><td class="number">${unbroken(formatBytes(bytes))}</td><td class="number">${shareOf(bytes, whole)}${meter(bytes / whole)}</td></tr>`,
  );
  if (others) {
    rows.push(
      html`<tr><td class="name">${others.count} others</td><td></td><td class="number">${unbroken(formatBytes(others.bytes))}</td><td class="number">${shareOf(others.bytes, whole)}${meter(others.bytes / whole)}</td></tr>`,
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

/** How long a step takes in less memory. */
export function spillTable({ spill = [] }: Estimate): Markup | undefined {
  if (spill.length === 0) return undefined;
  const rows = spill.map(
    ({ memoryBytes, slowdown: { low, expected, high } }) =>
      html`<tr><th scope="row">${unbroken(formatBytes(memoryBytes))}</th><td class="number">${times(expected)}</td><td class="number">${times(low)} to ${times(high)}</td></tr>`,
  );
  return html`<section aria-labelledby="spill"><h2 id="spill">${spillTitle}</h2><p class="soft">The time of a step as a multiple of its own, where what autograd keeps moves to the host or is computed again.</p>${table(['Memory', 'Times as long', 'Interval'], rows)}</section>`;
}

function shareOf(bytes: number, whole: number): string {
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

/** Bars are drawn in hundredths of their width. */
const width = 100;
const height = 12;

/** What a way needs against the budget. */
export function optionBar(needed: number, budget: number, widest: number): Markup {
  const x = (bytes: number) => ((bytes / widest) * width * 0.98).toFixed(2);
  return html`<svg class="option-bar" viewBox="0 0 ${width} ${height}" preserveAspectRatio="none" aria-hidden="true"><rect class="${needed > budget ? 'over' : 'likely'}" x="0" y="2" width="${x(needed)}" height="8"/><rect class="line" x="${x(budget)}" y="0" width="1" height="${height}"/></svg>`;
}

/** What a plan's page needs beside the look of an estimate's. */
export const planStyle = `
.option-bar { display: block; width: 150px; height: 14px; }
.option-bar .likely { fill: var(--water); }
.option-bar .over { fill: var(--critical); }
.option-bar .line { fill: var(--ink); stroke: none; }
.fits { font-weight: 600; }
.fits.yes { color: var(--allocated); }
.fits.barely { color: var(--warning); }
.fits.no { color: var(--critical); }
table.options tbody th { font-weight: 400; min-width: 16em; }
table.options tr.chosen th { font-weight: 600; }
pre { overflow-x: auto; background: var(--chip); padding: 14px 16px; margin: 14px 0 0; }
h2 + .grid { margin-top: 10px; }
`;

/** Bars are drawn in thousandths of their width, and stretched to the page's. */
const estimateWidth = 1000;
const estimateHeight = 34;
/** How far beyond what it must show a bar goes. */
const room = 1.04;

/** What the device loses, with its interval, against what the card has. */
export function cardBar(estimate: Estimate, gpu: EstimateGpu): Markup {
  const device = answersOf(estimate, gpu).find(({ name }) => name === 'device');
  const { deviceBytes } = estimate.peak;
  const { lowBytes, highBytes } = device?.interval ?? {
    lowBytes: deviceBytes,
    highBytes: deviceBytes,
  };
  const whole = Math.max(gpu.capacityBytes, highBytes) * room;
  const x = (bytes: number) => ((bytes / whole) * estimateWidth).toFixed(1);
  const capacity = x(gpu.capacityBytes);
  const within = Math.min(deviceBytes, gpu.capacityBytes);
  const words = `${formatBytes(deviceBytes)} of ${formatBytes(gpu.capacityBytes)}`;
  return html`<svg class="bar" viewBox="0 0 ${estimateWidth} ${estimateHeight}" preserveAspectRatio="none" role="img" aria-label="${words}">
<rect class="ground" x="0" y="5" width="${capacity}" height="24"/>
<rect class="likely" x="0" y="5" width="${x(within)}" height="24"/>
<rect class="over" x="${x(within)}" y="5" width="${x(deviceBytes - within)}" height="24"/>
<rect class="whisker" x="${x(lowBytes)}" y="10" width="${Math.max(2, Number(x(highBytes)) - Number(x(lowBytes))).toFixed(1)}" height="14"/>
<rect class="capacity" x="${capacity}" y="0" width="3" height="${estimateHeight}"/>
</svg>
<figcaption class="ends"><span>${formatBytes(deviceBytes)} on the device; the shade is its interval</span><span>the line is the card's ${formatBytes(gpu.capacityBytes)}</span></figcaption>`;
}

/** The parts at the peak instant, each as wide as its share. */
export function breakdownBar({ breakdown, peak }: Estimate): Markup {
  let before = 0;
  const segments = breakdown.map(({ part, bytes }) => {
    const x = (before / peak.deviceBytes) * estimateWidth;
    before += bytes;
    const share = (bytes / peak.deviceBytes) * estimateWidth;
    return html`<rect class="part-${part}" x="${x.toFixed(1)}" y="0" width="${share.toFixed(1)}" height="${estimateHeight}"><title>${part}: ${formatBytes(bytes)}, ${percentWords((bytes / peak.deviceBytes) * 100, 1)}</title></rect>`;
  });
  const words = breakdown.map(({ part, bytes }) => `${part} ${formatBytes(bytes)}`).join(', ');
  return html`<svg class="bar" viewBox="0 0 ${estimateWidth} ${estimateHeight}" preserveAspectRatio="none" role="img" aria-label="${words}">${segments}</svg>`;
}

/** Where a file lies on this machine is private; its folder often is the model's name. */
const nothingSaid = new Set(['config.json', 'model.safetensors', 'model.safetensors.index.json']);

/** What stands for the model, in a few words. */
export function sourceWords(source: ModelSource): string {
  switch (source.kind) {
    case 'torchvision':
      return `torchvision:${source.name}`;
    case 'script':
      return [basename(source.path), ...source.args].join(' ');
    case 'parameters':
      return `a model of ${formatCount(source.parameters)} parameters`;
    case 'type':
      return `a ${source.size} ${source.type}`;
    case 'path': {
      const name = basename(source.path);
      return nothingSaid.has(name) ? `${basename(dirname(source.path))}/${name}` : name;
    }
    default:
      return source satisfies never;
  }
}

const precisionWords: Readonly<Record<Workload['precision'], string>> = {
  fp32: 'fp32',
  bf16: 'bf16',
  fp16: 'fp16',
  'amp-bf16': 'autocast to bf16',
  'amp-fp16': 'autocast to fp16',
};

/** How it is run, each setting with its name; only what counts. */
export function workloadFacts(
  workload: Workload,
  source: ModelSource,
): (readonly [name: string, value: string])[] {
  const { mode, batch, sequence, image, precision, optimizer, checkpointing } = workload;
  const { loraRank, quantization } = workload;
  const facts: (readonly [string, string | number | undefined | false])[] = [
    ['for', mode === 'train' ? 'training' : 'inference'],
    // A script makes its own batch.
    ['batch', source.kind !== 'script' && batch],
    ['sequence', source.kind !== 'script' && sequence],
    ['image', image],
    ['precision', precisionWords[precision]],
    ['optimizer', mode === 'train' && optimizer],
    ['checkpointing', mode === 'train' && (checkpointing ? 'yes' : 'no')],
    ['LoRA rank', loraRank],
    ['quantization', quantization],
  ];
  return facts.flatMap(([name, value]) =>
    value === undefined || value === false ? [] : [[name, String(value)] as const],
  );
}
