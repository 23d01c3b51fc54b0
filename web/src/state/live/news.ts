import { count } from '../../../../src/report/words.js';
import type { DaemonEvent, JobState } from '../../api/types.js';

const verbs: Readonly<Partial<Record<JobState, string>>> = {
  running: 'started',
  succeeded: 'succeeded',
  failed: 'failed',
  cancelled: 'cancelled',
  refused: 'refused',
  expired: 'expired',
};

/**
 * What to say aloud about a few seconds of events: one job by its name, many by their number, and
 * every alert that is critical. Undefined where there is nothing to say.
 */
export function newsOf(
  events: readonly DaemonEvent[],
  stateBefore: (id: string) => JobState | undefined,
): string | undefined {
  const ends = new Map<string, { name: string; state: JobState }>();
  const alerts = new Set<string>();
  for (const event of events) {
    if (event.type === 'alert' && event.alert.state === 'raised') {
      if (event.alert.severity === 'critical') alerts.add(event.alert.message);
    } else if (event.type === 'job') {
      ends.set(event.job.id, event.job);
    }
  }
  const byVerb = new Map<string, string[]>();
  for (const [id, { name, state }] of ends) {
    const verb = verbs[state];
    if (verb === undefined || stateBefore(id) === state) continue;
    byVerb.set(verb, [...(byVerb.get(verb) ?? []), name]);
  }
  const moves = [...byVerb].map(([verb, names]) =>
    names.length === 1 ? `${names[0]} ${verb}.` : `${count(names.length, 'job')} ${verb}.`,
  );
  const said = [...alerts, ...moves];
  return said.length === 0 ? undefined : said.join(' ');
}
