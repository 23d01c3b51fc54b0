import type { RunReport } from '../run/types.js';
import { html, type Markup } from './html/markup.js';
import { pageHead } from './html/page-head.js';
import { attemptSection, attemptsTable } from './html/run-attempts.js';
import { runMasthead } from './html/run-masthead.js';
import { runStyle } from './html/run-style.js';
import { nextCommand } from './text/run/run-ending.js';

/**
 * The report of a run as one HTML page that stands alone.
 *
 * @example
 * await writeFile('run.html', renderRunHtml(report));
 */
export function renderRunHtml(report: RunReport): string {
  const page = html`${pageHead({ title: `Run ${report.id}: ${report.outcome}`, version: report.tool.version, style: runStyle })}
<body>
<main>
${runMasthead(report)}
${attemptsTable(report)}
${report.attempts.map(attemptSection)}
${environmentPart(report)}
${notes(report)}
${nextPart(report)}
<footer class="soft">
<p>Peaks are measured: by the SDK inside the program, by the driver, or by the kernel, as each one says. GiB are 1024<sup>3</sup> bytes; times are UTC. Made by plimsoll ${report.tool.version}.</p>
</footer>
</main>
</body>
</html>
`;
  return page.text;
}

/** One command for a run that failed for memory. */
function nextPart(report: RunReport): Markup | false {
  const ranOut = (report.attempts.at(-1)?.outOfMemory ?? null) !== null;
  if (report.outcome !== 'failed' || !ranOut) return false;
  return html`<section><h2>Try next</h2><p class="command">${nextCommand(report)}</p></section>`;
}

/** Variables that the program got otherwise than the person had them. */
function environmentPart({ environmentChanges = [] }: RunReport): Markup | false {
  if (environmentChanges.length === 0) return false;
  const rows = environmentChanges.map(
    ({ name, from, to, by, reason }) =>
      html`<tr><th scope="row" data-label="Variable">${name}</th><td data-label="Before">${from ?? 'not set'}</td><td data-label="Now">${to ?? 'removed'}</td><td data-label="By">${by}</td><td data-label="Why">${reason}</td></tr>`,
  );
  return html`<section aria-label="Environment"><h2>Changes of the environment</h2><div class="scroll"><table class="stacked">
<thead><tr><th scope="col">Variable</th><th scope="col">Before</th><th scope="col">Now</th><th scope="col">By</th><th scope="col">Why</th></tr></thead>
<tbody>${rows}</tbody></table></div></section>`;
}

function notes(report: RunReport): Markup | false {
  if (report.notes.length === 0) return false;
  return html`<section><h2>Notes</h2><ul class="advice">${report.notes.map((note) => html`<li>${note}</li>`)}</ul></section>`;
}
