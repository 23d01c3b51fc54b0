import { jobStates } from '../../../src/jobs/contract.js';
import type { Counts } from '../state/board.js';
import type { JobFilter } from '../state/job-list.js';
import { listFilter } from '../state/list-filter.js';
import { board } from '../state/live.js';
import { useStore } from '../state/store.js';

/** States by which the list is narrowed; the rare ones only where there are any. */
const always: readonly string[] = ['running', 'waiting'];

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
  const all = Object.values(counts).reduce((sum, count) => sum + count, 0);
  const states = jobStates
    .filter((state) => always.includes(state) || counts[state] > 0 || state === chosen)
    .toSorted((one, other) => always.indexOf(one) - always.indexOf(other))
    .map((state) => ({ state, count: counts[state] }));
  const [active, ended] = [
    always.flatMap((name) => states.filter(({ state }) => state === name)),
    states.filter(({ state }) => !always.includes(state)),
  ];
  return [{ state: 'all', count: all } as const, ...active, ...ended];
}
