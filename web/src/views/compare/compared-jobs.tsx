import type { JobHistory, JobView } from '../../api/types.js';
import { memoryChart, stepCharts } from '../../charts/compared-lines.js';
import { useNow } from '../../parts/clock.js';
import { StateTag } from '../../parts/tags.js';
import {
  type Compared,
  comparedFigures,
  differingSettings,
} from '../../state/jobs/compare-jobs.js';
import { ComparedCharts } from './compared-charts.js';

type Two<T> = readonly [T, T];

/** What two jobs took, were told and did. */
export function ComparedJobs(props: { jobs: Two<JobView>; histories: Two<JobHistory> }) {
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
