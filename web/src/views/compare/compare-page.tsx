import { useId } from 'preact/hooks';
import type { JobHistory, JobSummary, JobView } from '../../api/types.js';
import {
  type ComparedChart,
  comparedSize,
  memoryChart,
  stepCharts,
} from '../../charts/compared-lines.js';
import { useNow } from '../../parts/clock.js';
import { Empty, RefusalNote, StateTag } from '../../parts/notes.js';
import { useStaggered } from '../../parts/use-staggered.js';
import {
  type Compared,
  comparedFigures,
  differingSettings,
} from '../../state/jobs/compare-jobs.js';
import { useJob } from '../../state/jobs/open-job.js';
import { board } from '../../state/live/live.js';

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

/** More cannot be chosen from; an older job is compared from its own page. */
const offered = 200;
/** A list that changes under the hand cannot be used. */
const leastMs = 2000;

/** One of the latest jobs that have started. */
function JobChoice(props: {
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

type Two<T> = readonly [T, T];

/** Compares the memory, settings and events of two jobs. */
function ComparedJobs(props: { jobs: Two<JobView>; histories: Two<JobHistory> }) {
  const { jobs, histories } = props;
  const now = useNow();
  const settings = differingSettings(jobs);
  const charts = [...memoryChart(histories), ...stepCharts(jobs.map(reportedSteps))];
  return (
    <>
      <section aria-labelledby="figures-title">
        <h2 id="figures-title">Figures</h2>
        <ComparedTable title="Figures of both jobs" jobs={jobs} rows={comparedFigures(jobs, now)} />
      </section>
      <section aria-labelledby="settings-title">
        <h2 id="settings-title">Settings that differ</h2>
        {settings.length === 0 ? (
          <p class="nothing">Both were asked for in the same way.</p>
        ) : (
          <ComparedTable title="Settings that differ" jobs={jobs} rows={settings} />
        )}
      </section>
      <section aria-labelledby="curves-title">
        <h2 id="curves-title">Curves on the same axes</h2>
        <ComparedCharts charts={charts} names={jobs.map(({ id, name }) => `#${id} ${name}`)} />
      </section>
    </>
  );
}

/** The attempt that goes on, or the last one that told of its steps. */
function reportedSteps({ attempts, currentAttempt }: JobView) {
  return (
    currentAttempt ?? attempts.findLast(({ progress = [] }) => progress.length > 1) ?? undefined
  );
}

function ComparedTable(props: { title: string; jobs: Two<JobView>; rows: readonly Compared[] }) {
  const hasDifferences = props.rows.some(({ difference }) => difference !== '');
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={`${props.title}, as a table`}>
      <table class="compared">
        <caption class="aside">{props.title}</caption>
        <thead>
          <tr>
            <th scope="col">
              <span class="aside">What</span>
            </th>
            {props.jobs.map((job, at) => (
              <th key={at} scope="col">
                <i class={`swatch run-${at}`} />
                <a href={`#/job/${job.id}`}>
                  #{job.id} {job.name}
                </a>{' '}
                <StateTag state={job.state} />
              </th>
            ))}
            {hasDifferences && <th scope="col">Difference</th>}
          </tr>
        </thead>
        <tbody>
          {props.rows.map(({ name, values, difference }) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              <td>{values[0]}</td>
              <td>{values[1]}</td>
              {hasDifferences && <td class="soft">{difference}</td>}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const { width, height } = comparedSize;

/** One drawing for each figure, with a curve of each job. */
function ComparedCharts(props: { charts: readonly ComparedChart[]; names: readonly string[] }) {
  const { charts, names } = props;
  if (charts.length === 0) return <p class="nothing">Neither has told enough for a curve.</p>;
  return (
    <>
      <p class="legend flat">
        {names.map((name, at) => (
          <span key={at} class="key-of-run">
            <i class={`swatch run-${at}`} />
            {name}
          </span>
        ))}
      </p>
      <div class="compared-charts">
        {charts.map(({ name, across, top, paths }) => (
          <figure key={name}>
            <figcaption>
              <b>{name}</b> up to {top}
            </figcaption>
            <svg
              viewBox={`0 0 ${width} ${height}`}
              preserveAspectRatio="none"
              role="img"
              aria-label={`${name} of ${names.join(' and of ')}, up to ${top}, over ${across}`}
            >
              {paths.map((path, at) => (
                <polyline key={at} class={`run-${at}`} points={path} />
              ))}
            </svg>
            <small>{across}</small>
          </figure>
        ))}
      </div>
    </>
  );
}
