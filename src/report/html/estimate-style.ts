import { partClasses, partVariables } from '../part-looks.js';

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
