import { useMemo, useRef } from 'preact/hooks';
import { headStarts } from '../../../../src/jobs/admission-order.js';
import { degradedSettingsWords } from '../../../../src/jobs/degraded.js';
import { hasEnded, jobStates, ownerName } from '../../../../src/jobs/types.js';
import { agingSeconds } from '../../../../src/jobs/waiting-list.js';
import { placesWords } from '../../../../src/run/words.js';
import { formatBytes } from '../../../../src/units/bytes.js';
import { formatSeconds } from '../../../../src/units/durations.js';
import { isKnown, type Known } from '../../../../src/units/known.js';
import { jobsListed } from '../../api/client.js';
import type { JobState, JobSummary } from '../../api/types.js';
import { askToCancel } from '../../parts/cancel-dialog.js';
import { useNow } from '../../parts/clock.js';
import { useHue } from '../../parts/hull.js';
import { Empty, StateTag } from '../../parts/notes.js';
import { useStaggered } from '../../parts/use-staggered.js';
import { type RowStyle, VirtualRows } from '../../parts/virtual-rows.js';
import { agoWords, coarse, usedOfReserved } from '../../parts/words.js';
import { joinCommand } from '../../state/forms/form-values.js';
import { type JobFilter, listedJobs, listFilter } from '../../state/jobs/job-list.js';
import { usedByJob } from '../../state/jobs/open-job.js';
import type { Counts } from '../../state/live/board.js';
import { board } from '../../state/live/live.js';
import { useStore } from '../../state/live/store.js';
import { mayWork, notYours, who } from '../../state/page/who.js';

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

/** Narrows the list by state, with the ends only where there are any, and by words. */
function JobFilters() {
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

/** The rules by which waiting jobs are ordered; each of them says which one put it behind another. */
function QueueOrder() {
  return (
    <details class="order">
      <summary>How waiting jobs are ordered</summary>
      <ul>
        <li>
          By priority and age: {formatSeconds(agingSeconds)} of waiting count as much as one step of
          priority.
        </li>
        <li>
          Jobs that need much memory are up to {formatSeconds(headStarts.size)} ahead, as a gap for
          them is rare. Long jobs are up to {formatSeconds(headStarts.length)} ahead.
        </li>
        <li>
          The first job of a workload is {formatSeconds(headStarts.first)} ahead: what it measures
          tells how much the others need.
        </li>
        <li>A smaller job may start before its turn in a gap that does not delay the first.</li>
      </ul>
    </details>
  );
}

/** One job in the list. */
function QueueRow({ job, index, style }: { job: JobSummary; index: number; style: RowStyle }) {
  const ended = hasEnded(job.state);
  const isHeld = useStore(who, (me) => notYours(me, job)) !== undefined;
  return (
    <div role="row" class="job-row" aria-rowindex={index + 2} style={{ ...style }}>
      <span role="cell" class="of-state">
        <StateTag state={job.state} />
      </span>
      <span role="cell" class="of-job">
        <a href={`#/job/${job.id}`} data-row={index}>
          {job.name}
        </a>
        <small>
          #{job.id} {job.owner !== ownerName && `${job.owner} `}
          <code>{joinCommand(job.command)}</code>
        </small>
      </span>
      <span role="cell" class="of-memory">
        <Memory job={job} />
      </span>
      <span role="cell" class="of-reason">
        <Happening job={job} />
      </span>
      <span role="cell" class="of-time right">
        <When job={job} />
      </span>
      <span role="cell" class="of-cancel">
        {!ended && !isHeld && (
          <button
            type="button"
            class="quiet"
            aria-label={`Cancel ${job.name}`}
            onClick={() => askToCancel(job)}
          >
            Cancel
          </button>
        )}
      </span>
    </div>
  );
}

function Memory({ job }: { job: JobSummary }) {
  const used = useStore(board, ({ devices }) => usedByJob(devices, job.id));
  const hue = useHue(job.id);
  const peak = peakOf(job);
  if (job.state === 'running') {
    const whole =
      (job.reservation?.bytes ?? job.need.bytes) * (job.reservation?.devices.length ?? 1);
    return (
      <>
        {usedOfReserved(used, whole)}
        <Meter part={used} whole={whole} hue={hue} />
      </>
    );
  }
  if (isKnown(peak)) {
    return (
      <>
        {formatBytes(peak)}{' '}
        <small>peak of {formatBytes(job.reservation?.bytes ?? job.need.bytes)}</small>
      </>
    );
  }
  if (job.need.whyDetails?.code === 'estimating') {
    return <>{job.waiting === null ? '' : 'being estimated'}</>;
  }
  if (job.need.basis === 'unknown') return <>a whole device</>;
  return (
    <>
      {formatBytes(job.need.bytes)} <small>{job.need.basis}</small>
    </>
  );
}

/** Why it waits, where it runs, how it ended. */
function Happening({ job }: { job: JobSummary }) {
  const retries = job.attempts.filter(({ outOfMemory }) => outOfMemory !== null).length;
  // One that failed or was cancelled has not recovered.
  const isRecovered = job.state === 'running' || job.state === 'succeeded';
  if (job.state === 'waiting') {
    const words = [job.waiting?.why ?? job.reason, job.waiting?.order ?? ''].join(' ').trim();
    return (
      <span class="why" title={words}>
        {job.degraded !== null && <b>degraded to {degradedSettingsWords(job.degraded)}</b>} {words}
      </span>
    );
  }
  const places = job.reservation === null ? '' : placesWords(job.reservation);
  const text = job.reason === '' && job.state === 'running' ? `on ${places}` : job.reason;
  return (
    <span class="why" title={text}>
      {retries > 0 && (
        <b class={isRecovered ? 'recovered' : 'ran-out'}>
          {isRecovered ? `recovered ${retries} ×` : `out of memory ${retries} ×`}
        </b>
      )}{' '}
      {text === '' ? places : text}
    </span>
  );
}

function When({ job }: { job: JobSummary }) {
  const now = useNow();
  if (job.state === 'waiting') {
    const start = job.waiting?.expectedStartAt ?? 'unknown';
    return (
      <>
        {isKnown(start) ? agoWords(Date.parse(start), Math.min(now, Date.parse(start))) : 'unknown'}{' '}
        <small>{job.waiting === null ? 'queued' : `place ${job.waiting.position}`}</small>
      </>
    );
  }
  if (job.state === 'running' && job.startedAt !== null) {
    return (
      <>
        {coarse(Math.max(0, (now - Date.parse(job.startedAt)) / 1000))} <small>so far</small>
      </>
    );
  }
  const end = Date.parse(job.endedAt ?? job.submittedAt);
  return (
    <>
      {agoWords(end, now)}{' '}
      {job.startedAt !== null && (
        <small>ran {coarse((end - Date.parse(job.startedAt)) / 1000)}</small>
      )}
    </>
  );
}

function peakOf({ attempts }: JobSummary): Known<number> {
  const known = attempts.flatMap(({ peakBytes }) => (isKnown(peakBytes) ? [peakBytes] : []));
  return known.length === 0 ? 'unknown' : Math.max(...known);
}

/** A part of a whole as a bar; more than the whole is marked. */
function Meter({ part, whole, hue }: { part: Known<number>; whole: number; hue?: string }) {
  const share = isKnown(part) && whole > 0 ? part / whole : 0;
  const width = Math.min(100, Math.round(share * 1000) / 10);
  return (
    <svg
      class={`meter ${hue ?? ''}`}
      viewBox="0 0 100 8"
      preserveAspectRatio="none"
      aria-hidden="true"
    >
      <rect class="whole" width="100" height="8" />
      <rect class={share > 1 ? 'part over' : 'part'} width={width} height="8" />
    </svg>
  );
}
