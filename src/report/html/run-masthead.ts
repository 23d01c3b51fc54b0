import type { RunReport } from '../../run/types.js';
import { deviceWords } from '../../run/words.js';
import { formatBytes } from '../../units/bytes.js';
import { formatSeconds } from '../../units/durations.js';
import { count, utcWords } from '../words.js';
import { emblem } from './emblem.js';
import { html, type Markup } from './markup.js';

/** The head of the page: what ran, how it ended, and the one thing to know. */
export function runMasthead(report: RunReport): Markup {
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
