import type { Part } from '../../estimate/types.js';

/** Light and dark; each stands out from its ground, and neighbours in a bar from one another. */
const partColours: Readonly<Record<Part, readonly [light: string, dark: string]>> = {
  weights: ['#2f6690', '#7fb2dc'],
  gradients: ['#7a4f9e', '#c3a0e0'],
  optimizer: ['#a8741a', '#e0b45c'],
  activations: ['#0f7a6c', '#5fd0bd'],
  temporary: ['#6f8f2f', '#b5d36f'],
  workspace: ['#8a8f96', '#aab2bb'],
  'kv-cache': ['#b0567a', '#e89ab8'],
  gathered: ['#3f7fbf', '#8fc4f2'],
  reduce: ['#9a3f8f', '#dd9ad2'],
  buckets: ['#b5651d', '#f0a868'],
  communication: ['#4f7a7a', '#93c2c2'],
  context: ['#5a6572', '#7d8996'],
  fragmentation: ['#c1301c', '#ff7b62'],
};

const entries = Object.entries(partColours);
const light = entries.map(([part, [colour]]) => `--${part}: ${colour};`).join(' ');
const dark = entries.map(([part, [, colour]]) => `--${part}: ${colour};`).join(' ');
const fills = entries.map(
  ([part]) => `.part-${part} { fill: var(--${part}); background: var(--${part}); }`,
);

/** What an estimate's page needs beside the look of all pages. */
export const estimateStyle = `
:root { ${light} }
@media (prefers-color-scheme: dark) { :root { ${dark} } }
${fills.join('\n')}
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
