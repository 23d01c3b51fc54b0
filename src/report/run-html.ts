import type { RunReport } from '../run/contract.js';
import { html, Markup } from './html/markup.js';
import { attemptSection, attemptsTable } from './html/run-attempts.js';
import { runMasthead } from './html/run-masthead.js';
import { runStyle } from './html/run-style.js';
import { pageStyle } from './html/style.js';

/** Nothing may be fetched by the page, whatever stands in the data. */
const policy = "default-src 'none'; style-src 'unsafe-inline'";

/**
 * The report of a run as one HTML page that stands alone.
 *
 * @example
 * await writeFile('run.html', renderRunHtml(report));
 */
export function renderRunHtml(report: RunReport): string {
  const page = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="generator" content="plimsoll ${report.tool.version}">
<title>Run ${report.id}: ${report.outcome}</title>
<style>${new Markup(pageStyle)}${new Markup(runStyle)}</style>
</head>
<body>
<main>
${runMasthead(report)}
${attemptsTable(report)}
${report.attempts.map(attemptSection)}
${notes(report)}
<footer class="soft">
<p>Peaks are measured: by the SDK inside the program, by the driver, or by the kernel, as each one says. GiB are 1024<sup>3</sup> bytes; times are UTC. Made by plimsoll ${report.tool.version}.</p>
</footer>
</main>
</body>
</html>
`;
  return page.text;
}

function notes(report: RunReport): Markup | false {
  if (report.notes.length === 0) return false;
  return html`<section><h2>Notes</h2><ul class="advice">${report.notes.map((note) => html`<li>${note}</li>`)}</ul></section>`;
}
