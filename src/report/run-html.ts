import { defaultLoadLine } from '../device/load-line.js';
import type { Attempt, AttemptBuffers, RunReport } from '../run/types.js';
import { deviceWords, outOfMemoryWords, settingsWords, spillWords } from '../run/words.js';
import { formatBytes } from '../units/bytes.js';
import { formatSeconds } from '../units/durations.js';
import { isKnown, type Known } from '../units/known.js';
import { emblem, html, type Markup, pageHead, tag, unbroken } from './html/page-head.js';
import {
  type Curve,
  chartSize,
  curveOf,
  lastWords,
  type ProgressLine,
  type ProgressLines,
  progressLines,
  roundBytes,
  valueHeights,
} from './progress-lines.js';
import { nextCommand } from './text/run-ending.js';
import { count, holderWords, utcWords } from './words.js';

/** What the page of a run has beyond the common look. */
const runStyle = `
.command { font-family: ui-monospace, "Cascadia Mono", Menlo, Consolas, "Liberation Mono", monospace; font-size: 13.5px; background: var(--chip); padding: 8px 12px; border-radius: 4px; overflow-wrap: anywhere; margin: 18px 0 0; max-width: none; }
.hull { display: block; width: 100%; min-width: 140px; height: 22px; overflow: visible; }
.hull .room { fill: var(--chip); }
.hull .cargo { fill: var(--water); }
.hull .cargo.sunk { fill: var(--critical); }
.hull .line { stroke: var(--accent); stroke-width: 1.8; }
.rungs { list-style: none; margin: 14px 0 0; padding: 0; }
.rungs li { display: grid; grid-template-columns: 11.5em 1fr; gap: 0 14px; padding: 8px 0; border-bottom: 1px solid var(--rule); }
.rungs b { font-weight: 600; }
pre.said { white-space: pre-wrap; font-size: 12.5px; }
.said { border-left: 3px solid var(--critical); padding: 5px 0 5px 16px; margin: 14px 0 0; overflow-wrap: anywhere; max-width: 76ch; }
.outcome.succeeded { color: var(--allocated); } .outcome.failed { color: var(--critical); } .outcome.interrupted { color: var(--warning); }
.plot { display: grid; grid-template-columns: 5.6em 1fr; gap: 4px 10px; }
.plot figcaption { grid-column: 1 / -1; }
.plot svg { width: 100%; }
.plot .grid { stroke: var(--rule); vector-effect: non-scaling-stroke; }
.plot .values, .plot .times { display: flex; justify-content: space-between; font-size: 12px; line-height: 16px; color: var(--soft); font-variant-numeric: tabular-nums; }
.plot .values { flex-direction: column; text-align: right; margin: -4px 0; }
.plot .times { grid-column: 2; }
@media (max-width: 640px) { .rungs li { grid-template-columns: 1fr; } .hull { min-width: 90px; } }
`;

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

/** The head of the page: what ran, how it ended, and the one thing to know. */
function runMasthead(report: RunReport): Markup {
  const seconds = (Date.parse(report.endedAt) - Date.parse(report.startedAt)) / 1000;
  const last = report.attempts.at(-1);
  const limit = last?.limit;
  return html`<header>
<div class="masthead">${emblem()}<div><h1>Run <span class="outcome ${report.outcome}">${report.outcome}</span></h1>
<p class="soft">${utcWords(Date.parse(report.startedAt))}, over ${formatSeconds(seconds)}</p></div></div>
<p class="lede">${lede(report)}</p>
<p class="command">${report.command.join(' ')}</p>
<dl class="facts">
<div><dt>Attempts</dt><dd>${report.attempts.length}</dd></div>
<div><dt>Exit code</dt><dd>${report.exitCode}</dd></div>
<div><dt>Limit</dt><dd>${limit === undefined || limit.bytes === 'none' ? 'none' : `${formatBytes(limit.bytes)}, by ${limit.by}`}</dd></div>
<div><dt>Device</dt><dd>${last === undefined ? 'unknown' : deviceWords(last.settings)}</dd></div>
<div><dt>Id</dt><dd>${report.id}</dd></div>
</dl>
</header>`;
}

function lede({ attempts, outcome }: RunReport): string {
  const ranOut = attempts.filter(({ outOfMemory }) => outOfMemory !== null).length;
  const recoveries = attempts
    .flatMap(({ rungs }) => rungs)
    .filter(({ rung }) => rung !== 'grow-back');
  if (outcome === 'interrupted') return 'It was interrupted.';
  if (ranOut === 0 && recoveries.length === 0) {
    return outcome === 'succeeded'
      ? 'It ran through, and memory did not run out.'
      : 'It failed, and not for want of memory.';
  }
  const times = `Memory ran out ${ranOut === 1 ? 'once' : `${ranOut} times`}`;
  if (outcome === 'succeeded') {
    return ranOut === 0
      ? `Memory ran out inside the program; it was recovered there by ${count(recoveries.length, 'step')}.`
      : `${times}; it was recovered, and finished.`;
  }
  return `${times}, and nothing was left to try.`;
}

function attemptsTable(report: RunReport): Markup {
  const most = scaleOf(report.attempts);
  const rows = report.attempts.map(
    (
      attempt,
    ) => html`<tr><th scope="row" data-label="Attempt"><a href="#attempt-${attempt.number}">${attempt.number}</a></th>
<td data-label="Settings">${settingsWords(attempt.settings)}</td>
<td class="wide-cell">${hull(attempt, most)}</td>
<td class="number" data-label="Peak">${unbroken(formatBytes(attempt.peakBytes))}</td>
<td class="number" data-label="Time">${unbroken(formatSeconds(secondsOf(attempt)))}</td>
<td data-label="End">${endWords(attempt)}</td></tr>`,
  );
  return html`<section aria-label="Attempts"><div class="scroll"><table class="stacked">
<thead><tr><th scope="col">Attempt</th><th scope="col">Settings</th><th scope="col">Peak, with the load line</th><th scope="col" class="number">Peak</th><th scope="col" class="number">Time</th><th scope="col">End</th></tr></thead>
<tbody>${rows}</tbody></table></div></section>`;
}

function attemptSection(attempt: Attempt): Markup {
  const { outOfMemory: oom, rungs, number } = attempt;
  return html`<section class="device" id="attempt-${number}"><div class="heading"><h2>Attempt ${number} <span>${settingsWords(attempt.settings)}</span></h2> ${tag(attempt.source)}</div>
<p class="command">${attempt.command.join(' ')}</p>
${oom !== null && html`<p class="said">${oom.message}</p><p class="soft">${unbroken(figures(attempt))}</p>`}
${
  rungs.length > 0 &&
  html`<h3>What was done</h3><ol class="rungs">${rungs.map(
    ({ rung, why, atSeconds }) =>
      html`<li><span><b>${rung}</b><br><span class="soft">after ${formatSeconds(atSeconds)}</span></span><span>${unbroken(why)}</span></li>`,
  )}</ol>`
}
${holdersPart(attempt)}
${memoryPart(attempt)}
${outputPart(attempt)}
${progressPart(attempt)}
${attempt.spill !== undefined && html`<p class="soft">${unbroken(spillWords(attempt.spill))}</p>`}
${attempt.buffers !== undefined && html`<p class="soft">${bufferWords(attempt.buffers)}</p>`}
${snapshotPart(attempt.snapshot)}
<p class="soft">${attempt.limit.why}</p>
</section>`;
}

/** What it held until it ran out, from its start to its end. */
function memoryPart({ memory = [], limit }: Attempt): Markup | false {
  const end = memory.at(-1)?.atSeconds ?? 0;
  if (memory.length < 2 || end <= 0) return false;
  const highest = memory.reduce((most, { bytes }) => Math.max(most, bytes), 1);
  const high =
    typeof limit.bytes === 'number' ? Math.max(limit.bytes, highest) : roundBytes(highest);
  const points = memory.map(({ atSeconds, bytes }) => ({ atSeconds, value: bytes }));
  const curve = curveOf(points, { from: 0, to: end, low: 0, high }, formatBytes);
  const words = `Memory over ${formatSeconds(end)}, highest sample ${formatBytes(highest)}`;
  const limitWords =
    typeof limit.bytes === 'number' && `, limit ${formatBytes(limit.bytes)} at the top`;
  return plot(html`${words}${limitWords}`, words, curve);
}

function holdersPart(attempt: Attempt): Markup | false {
  const words = holderWords(attempt);
  if (words === undefined) return false;
  const rows = words.processes.map(
    ({ bytes, command }) =>
      html`<tr><td class="number">${unbroken(bytes)}</td><td>${command}</td></tr>`,
  );
  return html`<h3>${words.title}</h3><div class="scroll"><table><thead><tr><th scope="col" class="number">Memory</th><th scope="col">Process</th></tr></thead><tbody>${rows}</tbody></table></div><p class="soft">${words.note}</p>`;
}

function outputPart({ lastLines = [] }: Attempt): Markup | false {
  if (lastLines.length === 0) return false;
  return html`<h3>The last lines of the program</h3><pre class="said">${lastLines.map((line) => html`${line}\n`)}</pre>`;
}

function snapshotPart(snapshot: Attempt['snapshot']): Markup | false {
  if (snapshot === null) return false;
  return html`<h3>What its memory snapshot shows</h3><ul class="advice">${snapshot.findings.map(
    (finding) => html`<li>${unbroken(finding)}</li>`,
  )}</ul><p class="soft">${snapshot.file}</p>`;
}

function figures({ outOfMemory, peakBytes, peakFrom }: Attempt): string {
  const parts: readonly (readonly [string, Known<number>])[] = [
    ['asked for', outOfMemory?.askedBytes ?? 'unknown'],
    ['free', outOfMemory?.freeBytes ?? 'unknown'],
    ['of', outOfMemory?.totalBytes ?? 'unknown'],
  ];
  const knownParts = parts.filter(([, bytes]) => isKnown(bytes));
  const said = knownParts.map(([name, bytes]) => `${name} ${formatBytes(bytes)}`).join(', ');
  const from = isKnown(peakFrom) ? ` (by ${peakFrom})` : '';
  const peak = `peak ${formatBytes(peakBytes)}${from}`;
  return `Kind: ${outOfMemory?.kind ?? 'unknown'}; ${said === '' ? '' : `${said}; `}${peak}.`;
}

/** A hull filled to the peak, and the line that it should not pass. */
function hull({ peakBytes, limit, outOfMemory }: Attempt, most: number): Markup | string {
  // The figure beside it says that it is unknown.
  if (!isKnown(peakBytes)) return '';
  const capacity = typeof limit.bytes === 'number' ? limit.bytes : most;
  const x = (bytes: number) => Math.round((bytes / most) * 1000) / 10;
  const line = typeof limit.bytes === 'number' ? x(limit.bytes * defaultLoadLine) : undefined;
  return html`<svg class="hull" viewBox="0 0 100 22" preserveAspectRatio="none" role="img" aria-label="${formatBytes(peakBytes)}"><rect class="room" x="0" y="4" width="${x(capacity)}" height="14"/><rect class="cargo ${outOfMemory !== null && 'sunk'}" x="0" y="4" width="${Math.min(100, x(peakBytes))}" height="14"/>${line !== undefined && html`<line class="line" vector-effect="non-scaling-stroke" x1="${line}" x2="${line}" y1="0" y2="22"/>`}</svg>`;
}

function scaleOf(attempts: readonly Attempt[]): number {
  const known = attempts.flatMap(({ peakBytes, limit }) =>
    [peakBytes, limit.bytes].filter((bytes) => typeof bytes === 'number'),
  );
  return Math.max(1, ...known);
}

function endWords({ outOfMemory, exitCode }: Attempt): string {
  if (outOfMemory !== null) return outOfMemoryWords(outOfMemory);
  return exitCode === 0 ? 'finished' : `exit code ${exitCode}`;
}

function secondsOf({ startedAt, endedAt }: Attempt): number {
  return (Date.parse(endedAt) - Date.parse(startedAt)) / 1000;
}

const { width, height } = chartSize;

/** Throughput, loss and memory over the steps of an attempt, with each recovery marked. */
function progressPart(attempt: Attempt): Markup | false {
  const found = progressLines(attempt);
  if (found === undefined) return false;
  const { summary, lines, marks } = found;
  return html`<h3>Over its steps</h3><p class="soft">${summary}</p>${lines.map((line) => chart(line, marks))}`;
}

function chart(line: ProgressLine, marks: ProgressLines['marks']): Markup {
  return plot(html`${lastWords(line, false)}`, line.name, line, marks);
}

function tickWords(ticks: Curve['values']): readonly Markup[] {
  return ticks.map((words) => html`<span>${unbroken(words)}</span>`);
}

/** A curve with its axes. Their words are no part of the drawing, which is stretched to the width that there is. */
function plot(
  caption: Markup,
  name: string,
  { path, values, times }: Curve,
  marks: ProgressLines['marks'] = [],
): Markup {
  return html`<figure class="plot"><figcaption>${caption}</figcaption><div class="values" aria-hidden="true">${tickWords(values)}</div><svg viewBox="0 0 ${width} ${height}" preserveAspectRatio="none" height="${height}" role="img" aria-label="${name}">${valueHeights.map(
    (y) => html`<line class="grid" x1="0" x2="${width}" y1="${y}" y2="${y}"/>`,
  )}${marks.map(
    (mark) =>
      html`<line x1="${mark.x}" x2="${mark.x}" y1="0" y2="${height}" stroke="currentColor" stroke-dasharray="4 3" opacity="0.5"><title>${mark.rung}</title></line>`,
  )}<polyline points="${path}" fill="none" stroke="currentColor" stroke-width="1.5" vector-effect="non-scaling-stroke"/></svg><div class="times" aria-hidden="true">${tickWords(times)}</div></figure>`;
}

/**
 * Buffer stores of an attempt in one sentence.
 *
 * @example
 * bufferWords(attempt.buffers); // Buffers: 12 items, 3.0 GiB held of 5.1 GiB raw (1.70 x); 90 % hits, 4 evictions
 */
function bufferWords(buffers: AttemptBuffers): string {
  const { items, memoryBytes, fileBytes, rawBytes, hitRate, compressionRatio, evictions } = buffers;
  const held = formatBytes(memoryBytes + fileBytes);
  const ratio = isKnown(compressionRatio) ? ` (${compressionRatio.toFixed(2)} x)` : '';
  const hits = isKnown(hitRate) ? `${Math.round(hitRate * 100)} % hits` : 'no request';
  return `Buffers: ${items} items, ${held} held of ${formatBytes(rawBytes)} raw${ratio}; ${hits}, ${evictions} evictions`;
}
