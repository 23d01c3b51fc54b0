import { Empty } from '../../parts/empty.js';
import { RefusalNote } from '../../parts/refusal-note.js';
import { useJob } from '../../state/jobs/open-job.js';
import { ComparedJobs } from './compared-jobs.js';
import { JobChoice } from './job-choice.js';

function choose(one: string, other: string): void {
  location.hash = `#/compare/${[one, other].filter(Boolean).map(encodeURIComponent).join('/')}`;
}

/** Two jobs side by side: figures, settings that differ, curves on the same axes. */
export function ComparePage({ ids }: { ids: readonly string[] }) {
  const [first = '', second = ''] = ids;
  return (
    <article class="compare">
      <h1>Compare two jobs</h1>
      <div class="fields">
        <JobChoice label="First job" chosen={first} choose={(id) => choose(id, second)} />
        <JobChoice
          label="Second job"
          chosen={second}
          choose={(id) => choose(first, id)}
          disabled={first === ''}
        />
      </div>
      {first === '' || second === '' ? (
        <Empty title="Choose two jobs that have started.">
          Their figures, the settings that differ and their curves are then shown side by side.
        </Empty>
      ) : (
        <Both key={`${first} ${second}`} first={first} second={second} />
      )}
    </article>
  );
}

function Both({ first, second }: { first: string; second: string }) {
  const [one, other] = [useJob(first), useJob(second)];
  const refusal = one.refusal ?? other.refusal;
  if (one.job !== undefined && other.job !== undefined) {
    return <ComparedJobs jobs={[one.job, other.job]} histories={[one.history, other.history]} />;
  }
  return refusal === undefined ? (
    <p class="nothing">Fetching both jobs …</p>
  ) : (
    <RefusalNote refusal={refusal} />
  );
}
