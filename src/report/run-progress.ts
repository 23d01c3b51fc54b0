import type { Attempt } from '../run/types.js';
import { html, type Markup } from './html/markup.js';
import {
  chartSize,
  lastWords,
  type ProgressLine,
  type ProgressLines,
  progressLines,
} from './progress-lines.js';

const { width, height } = chartSize;

/** Throughput, loss and memory over the steps of an attempt, with each recovery marked. */
export function progressPart(attempt: Attempt): Markup | false {
  const found = progressLines(attempt);
  if (found === undefined) return false;
  const { summary, lines, marks } = found;
  return html`<h3>Over its steps</h3><p class="soft">${summary}</p>${lines.map((line) => chart(line, marks))}`;
}

function chart(line: ProgressLine, marks: ProgressLines['marks']): Markup {
  const { name, path } = line;
  return html`<figure><figcaption>${lastWords(line, false)}</figcaption><svg viewBox="0 0 ${width} ${height}" preserveAspectRatio="none" width="100%" height="${height}" role="img" aria-label="${name}">${marks.map(
    (mark) =>
      html`<line x1="${mark.x}" x2="${mark.x}" y1="0" y2="${height}" stroke="currentColor" stroke-dasharray="4 3" opacity="0.5"><title>${mark.rung}</title></line>`,
  )}<polyline points="${path}" fill="none" stroke="currentColor" stroke-width="1.5" vector-effect="non-scaling-stroke"/></svg></figure>`;
}
