import { html, type Markup } from './markup.js';

/** The mark on a ship's hull: a disc and the line that the water must not pass. */
export function emblem(): Markup {
  return html`<svg class="emblem" viewBox="0 0 48 32" width="48" height="32" aria-hidden="true"><circle cx="24" cy="16" r="11"/><line x1="3" x2="45" y1="16" y2="16"/></svg>`;
}

/** The same mark on a chart, with its centre at x, y. */
export function emblemAt(x: number, y: number): Markup {
  return html`<circle class="disc" cx="${x}" cy="${y}" r="5"/>`;
}
