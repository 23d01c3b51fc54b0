import type { Advice } from '../../optimize/advice.js';
import type { Optimization } from '../../optimize/document.js';
import type { TrainingAnswer } from '../../optimize/training-answer.js';
import { formatBytes } from '../../units/bytes.js';
import { estimateStyle, planStyle } from '../html/estimate-sections.js';
import { emblem, html, Markup, pageHead, unbroken } from '../html/page-head.js';
import { changeLines, headline, savingWords, trainingRows } from './text.js';

/**
 * What to do as one HTML page that stands alone: no file beside it, nothing loaded, no script.
 *
 * @example
 * await writeFile('optimize.html', renderOptimizeHtml(found, '0.1.0'));
 */
export function renderOptimizeHtml(found: Optimization, version: string): string {
  const { mode, devices, advice, training, notes } = found;
  return html`${pageHead({ title: `Memory, ${mode}`, version, style: estimateStyle + planStyle })}
<body>
<main>
<header>
<div class="masthead">${emblem()}<div><h1>What to do about memory</h1>
<p class="soft">plimsoll optimize --mode ${mode}</p></div></div>
<p class="lede">${unbroken(headline(found))}</p>
<dl class="facts">${devices.map(
    ({ id, name, usedBytes, totalBytes, provenance }) =>
      html`<div><dt>${id}, ${name}</dt><dd>${unbroken(`${formatBytes(usedBytes)} of ${formatBytes(totalBytes)}`)} <small>${provenance}</small></dd></div>`,
  )}</dl>
</header>
${training && trainingSection(training)}
<section aria-labelledby="advice"><h2 id="advice">What to do, and what it saves</h2>
${advice.length === 0 ? html`<p class="soft">Nothing to improve was found.</p>` : html`<ol class="findings">${advice.map(adviceItem)}</ol>`}</section>
${listSection('changes', 'Files', changeLines(found))}
${listSection('notes', 'What it rests on', notes)}
<footer class="soft">
<p>Each figure says whether it was <b>measured</b>, <b>simulated</b> or <b>estimated</b>. GiB are 1024<sup>3</sup> bytes. Made by plimsoll ${version}.</p>
</footer>
</main>
</body>
</html>
`.text;
}

function adviceItem({ fact, steps, saves }: Advice): Markup {
  return html`<li>${unbroken(fact)}${code(steps)}<p class="saves">${unbroken(savingWords(saves))}</p></li>`;
}

function trainingSection(training: TrainingAnswer): Markup {
  const { paste } = training;
  return html`<section aria-labelledby="training"><h2 id="training">Train with</h2>
<dl class="grid">${trainingRows(training).map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
${code(paste.shell.split('\n'))}${code(paste.python.split('\n'))}${paste.trainer !== undefined && code(paste.trainer.split('\n'))}</section>`;
}

function code(lines: readonly string[]): Markup {
  return html`<pre><code>${lines.map((line) => [line, new Markup('\n')])}</code></pre>`;
}

function listSection(id: string, title: string, lines: readonly string[]): Markup | undefined {
  if (lines.length === 0) return undefined;
  return html`<section aria-labelledby="${id}"><h2 id="${id}">${title}</h2><ul class="findings">${lines.map((line) => html`<li>${unbroken(line)}</li>`)}</ul></section>`;
}
