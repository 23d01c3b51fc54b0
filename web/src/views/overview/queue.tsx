import { useMemo, useRef } from 'preact/hooks';
import { jobsListed } from '../../api/all-jobs.js';
import type { JobSummary } from '../../api/types.js';
import { Empty } from '../../parts/empty.js';
import { JobFilters } from '../../parts/job-filters.js';
import { useStaggered } from '../../parts/use-staggered.js';
import { VirtualRows } from '../../parts/virtual-rows.js';
import { listedJobs } from '../../state/jobs/job-list.js';
import { listFilter } from '../../state/jobs/list-filter.js';
import { board } from '../../state/live/live.js';
import { useStore } from '../../state/live/store.js';
import { mayWork, who } from '../../state/page/who.js';
import { QueueOrder } from './queue-order.js';
import { QueueRow } from './queue-row.js';

/** Rows that jump more often can be neither read nor clicked. */
const leastMs = 300;

/** All jobs: what runs, what waits and why, what ended. */
export function Queue() {
  const [jobs, loaded] = useStaggered(board, (now) => [now.jobs, now.loaded] as const, leastMs);
  const filter = useStore(listFilter, (now) => now);
  const canSubmit = useStore(who, mayWork);
  const hasQueue = useStore(board, ({ counts }) => counts.waiting > 1);
  const before = useRef<readonly JobSummary[]>([]);
  const listed = useMemo(() => {
    before.current = listedJobs(jobs, filter, before.current);
    return before.current;
  }, [jobs, filter]);
  return (
    <section aria-labelledby="jobs-title">
      <div class="heading">
        <h2 id="jobs-title">Jobs</h2>
        {canSubmit && (
          <a class="button primary" href="#/submit">
            New job
          </a>
        )}
      </div>
      {loaded && jobs.size === 0 ? (
        <Empty
          title="No jobs yet."
          command="plimsoll submit --memory 6GiB -- python train.py --batch-size {batch_size}"
        >
          Send one from here with <a href="#/submit">New job</a>, or from a terminal:
        </Empty>
      ) : (
        <>
          <JobFilters />
          {hasQueue && <QueueOrder />}
          <JobTable jobs={listed} loaded={loaded} />
        </>
      )}
    </section>
  );
}

function JobTable({ jobs, loaded }: { jobs: ReturnType<typeof listedJobs>; loaded: boolean }) {
  if (jobs.length === 0) {
    return <p class="nothing">{loaded ? 'No job is like that.' : 'Fetching the jobs …'}</p>;
  }
  return (
    <>
      <div class="jobs" role="table" aria-label="Jobs" aria-rowcount={jobs.length + 1}>
        <div role="rowgroup" class="jobs-head">
          <div role="row" class="job-row" aria-rowindex={1}>
            <span role="columnheader">State</span>
            <span role="columnheader">Job</span>
            <span role="columnheader">Memory</span>
            <span role="columnheader">What happens</span>
            <span role="columnheader" class="right">
              When
            </span>
            <span role="columnheader">
              <span class="aside">Cancel</span>
            </span>
          </div>
        </div>
        <VirtualRows
          count={jobs.length}
          row={(index, style) => {
            const job = jobs[index];
            return job && <QueueRow key={job.id} job={job} index={index} style={style} />;
          }}
        />
      </div>
      {jobs.length >= jobsListed && (
        <p class="nothing">The latest {jobsListed.toLocaleString('en-US')} are listed here.</p>
      )}
    </>
  );
}
