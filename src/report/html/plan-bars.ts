import { html, type Markup } from './markup.js';

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
