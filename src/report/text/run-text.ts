import type { RunReport } from '../../run/types.js';
import { settingsWords } from '../../run/words.js';
import { reachedWords } from '../progress-lines.js';
import { count } from '../words.js';

/** A run in one sentence; undefined where nothing happened that a person need know. */
export function runSummary(report: RunReport): string | undefined {
  const { attempts, outcome, notes } = report;
  const last = attempts.at(-1);
  const climbed = attempts.flatMap(({ rungs }) => rungs).length;
  const ranOut = attempts.filter(({ outOfMemory }) => outOfMemory !== null).length;
  if (last === undefined || (climbed === 0 && ranOut === 0)) return undefined;
  const how = `${outcome} after ${count(attempts.length, 'attempt')}`;
  const times = ranOut === 0 ? 'recovered within the program' : `out of memory ${ranOut} x`;
  const why = outcome === 'failed' ? ` ${notes.at(-1) ?? ''}` : '';
  const reached = reachedWords(last.progress);
  const steps = reached === undefined ? '' : ` Last report (measured): ${reached}.`;
  return `${how} (${times}); at the end ${settingsWords(last.settings)}.${steps}${why}`;
}
