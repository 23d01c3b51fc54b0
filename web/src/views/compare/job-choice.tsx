import { useId } from 'preact/hooks';
import type { JobSummary } from '../../api/types.js';
import { useStaggered } from '../../parts/use-staggered.js';
import { board } from '../../state/live/live.js';

/** More cannot be chosen from; an older job is compared from its own page. */
const offered = 200;
/** A list that changes under the hand cannot be used. */
const leastMs = 2000;

/** One of the latest jobs that have started. */
export function JobChoice(props: {
  label: string;
  chosen: string;
  choose: (id: string) => void;
  disabled?: boolean;
}) {
  const id = useId();
  const [jobs] = useStaggered(board, (now) => [now.jobs] as const, leastMs);
  const listed = startedJobs(jobs, props.chosen);
  return (
    <div class="field">
      <label class="label" for={id}>
        {props.label}
      </label>
      <select
        id={id}
        value={props.chosen}
        disabled={props.disabled === true}
        onChange={(event) => props.choose(event.currentTarget.value)}
      >
        <option value="">choose one</option>
        {listed.map((job) => (
          <option key={job.id} value={job.id}>
            #{job.id} {job.name}, {job.state}
          </option>
        ))}
      </select>
    </div>
  );
}

function startedJobs(
  jobs: ReadonlyMap<string, JobSummary>,
  chosen: string,
): readonly Pick<JobSummary, 'id' | 'name' | 'state'>[] {
  const latest = [...jobs.values()]
    .filter(({ startedAt }) => startedAt !== null)
    .toSorted((one, other) => Number(other.id) - Number(one.id))
    .slice(0, offered);
  const own = jobs.get(chosen);
  return own === undefined || latest.includes(own) ? latest : [own, ...latest];
}
