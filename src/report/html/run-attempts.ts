import { defaultLoadLine } from '../../device/load-line.js';
import type { Attempt, RunReport } from '../../run/types.js';
import { outOfMemoryWords, settingsWords } from '../../run/words.js';
import { formatBytes } from '../../units/bytes.js';
import { formatSeconds } from '../../units/durations.js';
import { isKnown, type Known } from '../../units/known.js';
import { bufferWords } from '../run-buffers.js';
import { holderWords } from '../run-holders.js';
import { progressPart } from '../run-progress.js';
import { html, type Markup, unbroken } from './markup.js';
import { tag } from './overview.js';

export function attemptsTable(report: RunReport): Markup {
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

export function attemptSection(attempt: Attempt): Markup {
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
  const top = typeof limit.bytes === 'number' ? Math.max(limit.bytes, highest) : highest;
  const points = memory.map(
    ({ atSeconds, bytes }) =>
      `${Math.round((atSeconds / end) * 9600) / 10},${Math.round((1 - bytes / top) * 1160 + 20) / 10}`,
  );
  const words = `Memory over ${formatSeconds(end)}, highest sample ${formatBytes(highest)}`;
  return html`<figure><figcaption>${words}${typeof limit.bytes === 'number' && `, limit ${formatBytes(limit.bytes)} at the top`}</figcaption><svg viewBox="0 0 960 120" preserveAspectRatio="none" width="100%" height="120" role="img" aria-label="${words}"><polyline points="${points.join(' ')}" fill="none" stroke="currentColor" stroke-width="1.5" vector-effect="non-scaling-stroke"/></svg></figure>`;
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
