import { hasEnded, jobStates } from '../../../src/jobs/types.js';
import type { JobState } from '../api/types.js';
import type { JobFilter } from '../state/jobs/job-list.js';
import { listFilter } from '../state/jobs/list-filter.js';
import type { Counts } from '../state/live/board.js';
import { board } from '../state/live/live.js';
import { useStore } from '../state/live/store.js';

/** Narrows the list by state, with the ends only where there are any, and by words. */
export function JobFilters() {
  const filter = useStore(listFilter, (now) => now);
  const counts = useStore(board, (now) => now.counts);
  const choose = (change: Partial<JobFilter>): void => listFilter.set({ ...filter, ...change });
  const choices = choicesOf(counts, filter.state);
  return (
    <div class="filters">
      <fieldset class="segments">
        <legend class="aside">Show jobs by state</legend>
        {choices.map(({ state, count }) => (
          <label key={state}>
            <input
              type="radio"
              name="state"
              checked={filter.state === state}
              onChange={() => choose({ state })}
            />
            <span>
              {state} <small>{count.toLocaleString('en-US')}</small>
            </span>
          </label>
        ))}
      </fieldset>
      <input
        id="search"
        type="search"
        placeholder="Name, command or #id"
        aria-label="Search jobs by name, command or id"
        value={filter.search}
        onInput={(event) => choose({ search: event.currentTarget.value })}
        autocomplete="off"
        spellcheck={false}
      />
    </div>
  );
}

function choicesOf(counts: Counts, chosen: JobFilter['state']) {
  const sum = (states: readonly JobState[]) =>
    states.reduce((total, state) => total + counts[state], 0);
  const ends = jobStates.filter((state) => hasEnded(state));
  const shown = ends.filter((state) => counts[state] > 0 || state === chosen);
  return [
    { state: 'all', count: sum(jobStates) },
    { state: 'running', count: counts.running },
    { state: 'waiting', count: counts.waiting },
    { state: 'ended', count: sum(ends) },
    ...shown.map((state) => ({ state, count: counts[state] })),
  ] as const;
}
