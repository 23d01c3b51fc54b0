import { hasEnded } from '../../../../src/jobs/types.js';
import {
  chartSize,
  lastWords,
  type ProgressLines,
  progressLines,
  valueHeights,
} from '../../../../src/report/progress-lines.js';
import { holderWords, percentWords } from '../../../../src/report/words.js';
import { formatBytes } from '../../../../src/units/bytes.js';
import { formatSeconds } from '../../../../src/units/durations.js';
import { isKnown } from '../../../../src/units/known.js';
import { reportAddress, snapshotAddress } from '../../api/client.js';
import type { JobHistory, JobView } from '../../api/types.js';
import type { ChartInput, ChartMark } from '../../charts/chart-input.js';
import { askToCancel } from '../../parts/cancel-dialog.js';
import { ChartBox } from '../../parts/chart-box.js';
import { Empty } from '../../parts/empty.js';
import { RefusalNote } from '../../parts/refusal-note.js';
import { StateTag } from '../../parts/tags.js';
import { basisWords, clockWords } from '../../parts/words.js';
import { joinCommand } from '../../state/forms/split-command.js';
import {
  isRecoveryInReason,
  recoverySentence,
  type StoryStep,
  storyOf,
} from '../../state/jobs/job-story.js';
import { useJob } from '../../state/jobs/open-job.js';
import { provenanceOfJob } from '../../state/jobs/used-by-job.js';
import { board } from '../../state/live/live.js';
import { useStore } from '../../state/live/store.js';
import { notYours, who } from '../../state/page/who.js';
import { AttemptsTable } from './attempts-table.js';
import { JobFacts } from './job-facts.js';
import { JobLog } from './job-log.js';

/** One job: where it stands, what it took, what happened to it, what it printed. */
export function JobPage({ id }: { id: string }) {
  const { job, history, refusal } = useJob(id);
  if (job === undefined) {
    if (refusal === undefined) return <p class="nothing">Fetching job {id} …</p>;
    return refusal.status === 404 ? (
      <Empty title={`There is no job ${id}.`}>
        <a href="#/">All jobs</a> are on the overview.
      </Empty>
    ) : (
      <RefusalNote refusal={refusal} />
    );
  }
  return (
    <article class="job-page">
      <Heading job={job} />
      <JobFacts job={job} />
      <div class="columns">
        <JobMemory job={job} history={history} />
        <NeedBars job={job} />
      </div>
      <JobProgress job={job} />
      <AttemptsTable job={job} />
      <SnapshotFindings job={job} />
      <EnvironmentChanges job={job} />
      <StoryLine job={job} />
      <JobLog key={job.id} job={job} />
    </article>
  );
}

/** One that ran and has ended. */
function hasReport({ state, startedAt }: JobView): boolean {
  return hasEnded(state) && startedAt !== null;
}

function Heading({ job }: { job: JobView }) {
  const me = useStore(who, (now) => now);
  const refused = notYours(me, job);
  // Of a waiting job the reason of its place is told; that it was degraded is in any other reason.
  const { waiting } = job;
  const reason = [waiting?.why ?? job.reason, waiting?.order, waiting && job.degraded?.why]
    .filter(Boolean)
    .join(' ');
  const recovery = isRecoveryInReason(job) ? undefined : recoverySentence(job);
  const sentence = [reason, recovery ?? ''].filter((part) => part !== '').join(' ');
  return (
    <>
      <div class="heading job-heading">
        <h1>
          {job.name} <span>#{job.id}</span>
        </h1>
        <StateTag state={job.state} />
        <div class="actions">
          {refused === undefined && hasReport(job) && (
            <a class="button" href={reportAddress(job.id)} target="_blank" rel="noreferrer">
              Report
            </a>
          )}
          {job.startedAt !== null && (
            <a class="button" href={`#/compare/${job.id}`}>
              Compare
            </a>
          )}
          {refused === undefined && (
            <a class="button" href={`#/submit/${job.id}`}>
              Submit again
            </a>
          )}
          {!hasEnded(job.state) && (
            <button
              type="button"
              class="danger"
              id="cancel-job"
              disabled={refused !== undefined}
              title={refused}
              onClick={() => askToCancel(job)}
            >
              Cancel
            </button>
          )}
        </div>
      </div>
      {sentence !== '' && <p class="lede">{sentence}</p>}
      <pre class="command">{joinCommand(job.command)}</pre>
    </>
  );
}

/** What it held over time, against what is reserved for it. */
function JobMemory({ job, history }: { job: JobView; history: JobHistory }) {
  const from = useStore(board, ({ devices }) => provenanceOfJob(devices, job));
  const peak = Math.max(0, ...history.usedBytes.map((bytes) => bytes ?? 0));
  return (
    <section aria-labelledby="memory-title">
      <h2 id="memory-title">Memory over time</h2>
      {history.epochMs.length < 2 ? (
        <p class="nothing">
          {job.startedAt === null ? 'It has not started.' : 'Nothing was read of it yet.'}
        </p>
      ) : (
        <>
          <ChartBox input={chartInput(job, history)} label={peakWords(job, peak)} />
          <p class="legend">
            <span class="key use-key">used, {from}</span>
            <span class="key line-key">
              reserved, {basisWords(job.reservation?.basis ?? job.need.basis)}
            </span>
            {job.attempts.some(({ outOfMemory }) => outOfMemory !== null) && (
              <span class="key sunk-key">out of memory</span>
            )}
            {job.attempts.some(({ rungs }) => rungs.length > 0) && (
              <span class="key rung-key">rung climbed</span>
            )}
          </p>
        </>
      )}
    </section>
  );
}

function chartInput(job: JobView, { epochMs, usedBytes }: JobHistory): ChartInput {
  const { reservation, need } = job;
  const reserved = (reservation?.bytes ?? need.bytes) * (reservation?.devices.length ?? 1);
  const peak = Math.max(0, ...usedBytes.map((bytes) => bytes ?? 0));
  return {
    epochMs,
    max: usedBytes,
    min: usedBytes,
    fromMs: epochMs[0] ?? 0,
    toMs: Math.max((epochMs[0] ?? 0) + 1000, epochMs.at(-1) ?? 0),
    nowMs: undefined,
    topBytes: Math.max(reserved, peak, 1) * 1.12,
    capacityBytes: undefined,
    loadLineBytes: reserved,
    lineLabel: `reserved ${formatBytes(reserved)}`,
    cone: undefined,
    marks: [...marksOf(job, 'rung', 'plain'), ...marksOf(job, 'out-of-memory', 'critical')],
  };
}

/** The last are drawn over the others. */
function marksOf(
  job: JobView,
  kind: StoryStep['kind'],
  look: ChartMark['look'],
): readonly ChartMark[] {
  return storyOf(job).flatMap((step) => (step.kind === kind ? [{ atMs: step.atMs, look }] : []));
}

function peakWords(job: JobView, peak: number): string {
  const reserved = formatBytes(job.reservation?.bytes ?? job.need.bytes);
  return `Memory of job ${job.id} over time: at most ${formatBytes(peak)}, with ${reserved} reserved.`;
}

interface Bar {
  readonly label: string;
  readonly note: string;
  readonly bytes: number;
  readonly look: 'estimated' | 'reserved' | 'measured' | 'sunk';
}

/** The estimate beside what was measured, on one scale. */
function NeedBars({ job }: { job: JobView }) {
  const bars = barsOf(job);
  const widest = Math.max(1, ...bars.map(({ bytes }) => bytes));
  return (
    <section aria-labelledby="need-title">
      <h2 id="need-title">Expected and measured</h2>
      <table class="need">
        <caption class="aside">What was expected of this job, beside what was measured</caption>
        <tbody>
          {bars.map(({ label, note, bytes, look }) => (
            <tr key={label}>
              <th scope="row">
                {label} <small>{note}</small>
              </th>
              <td class="bar-cell">
                <svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
                  <rect class={look} width={Math.max(0.5, (bytes / widest) * 100)} height="10" />
                </svg>
              </td>
              <td class="number">{formatBytes(bytes)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <p class="soft">
        {job.need.why} {errorWords(job)}
      </p>
    </section>
  );
}

function barsOf({ need, reservation, attempts }: JobView): readonly Bar[] {
  const bars: Bar[] = [];
  if (isKnown(need.estimatedBytes)) {
    bars.push({
      label: 'Estimate',
      note: 'estimated',
      bytes: need.estimatedBytes,
      look: 'estimated',
    });
  }
  if (reservation !== null || need.whyDetails?.code !== 'estimating')
    bars.push({
      label: reservation === null ? neededLabel(need) : 'Reserved',
      note: basisWords(reservation?.basis ?? need.basis),
      bytes: reservation?.bytes ?? need.bytes,
      look: 'reserved',
    });
  for (const { number, peakBytes, peakFrom, source, outOfMemory } of attempts) {
    if (!isKnown(peakBytes)) continue;
    bars.push({
      label: `Peak of attempt ${number}`,
      note: `${source}, by ${peakFrom}`,
      bytes: peakBytes,
      look: outOfMemory === null ? 'measured' : 'sunk',
    });
  }
  return bars;
}

function neededLabel({ basis }: JobView['need']): string {
  return basis === 'unknown' ? 'A whole device' : 'Needed';
}

/** How far the estimate was off, once that is known. */
function errorWords({ need, attempts }: JobView): string {
  const last = attempts.findLast(({ outOfMemory }) => outOfMemory === null);
  if (last === undefined || !isKnown(last.peakBytes) || !isKnown(need.estimatedBytes)) return '';
  const off = ((need.estimatedBytes - last.peakBytes) / last.peakBytes) * 100;
  if (Math.abs(off) < 0.5) return 'The estimate was right.';
  return `The estimate was ${percentWords(Math.abs(off))} ${off > 0 ? 'above' : 'below'} what was measured.`;
}

const { width, height } = chartSize;

/** Throughput, memory and loss over the steps of each attempt that told of some, recoveries marked; also while it runs. */
function JobProgress({ job }: { job: JobView }) {
  const { attempts, currentAttempt } = job;
  const all = [
    ...attempts.map((attempt) => ({ attempt, goesOn: false })),
    ...(currentAttempt === null ? [] : [{ attempt: currentAttempt, goesOn: true }]),
  ];
  const reported = all.flatMap(({ attempt, goesOn }) => {
    const found = progressLines(attempt, goesOn);
    return found === undefined ? [] : [{ number: attempt.number, found, goesOn }];
  });
  if (reported.length === 0) return null;
  return (
    <section aria-labelledby="progress-title">
      <h2 id="progress-title">Over its steps</h2>
      {reported.map(({ number, found, goesOn }) => (
        <div key={number} class="progress">
          <p class="soft">
            {all.length > 1 && `Attempt ${number}: `}
            {found.summary}
          </p>
          <Lines {...found} goesOn={goesOn} />
        </div>
      ))}
    </section>
  );
}

function Lines({ lines, marks, goesOn }: ProgressLines & { goesOn: boolean }) {
  return (
    <div class="progress-lines">
      {lines.map((line) => (
        <figure key={line.name} class="plot">
          <figcaption>{lastWords(line, goesOn)}</figcaption>
          <div class="values" aria-hidden="true">
            {line.values.map((words, at) => (
              <span key={at}>{words}</span>
            ))}
          </div>
          <svg
            viewBox={`0 0 ${width} ${height}`}
            preserveAspectRatio="none"
            role="img"
            aria-label={`${lastWords(line, goesOn)}, over the steps; ${marks.length} recoveries`}
          >
            {marks.map(({ x, rung, why }) => (
              <line key={`${x} ${rung}`} class="recovery" x1={x} x2={x} y1={0} y2={height}>
                <title>{`${rung}: ${why}`}</title>
              </line>
            ))}
            {valueHeights.map((y) => (
              <line key={y} class="grid" x1={0} x2={width} y1={y} y2={y} />
            ))}
            <polyline points={line.path} />
          </svg>
          <div class="times" aria-hidden="true">
            {line.times.map((words, at) => (
              <span key={at}>{words}</span>
            ))}
          </div>
        </figure>
      ))}
    </div>
  );
}

type Attempt = JobView['attempts'][number];

/**
 * What held the memory of attempts that ran out of it: by the snapshot that one left behind, or else
 * its largest processes, as they were last read.
 */
function SnapshotFindings({ job }: { job: JobView }) {
  const attempts = job.attempts.filter(
    ({ snapshot, holders }) => snapshot !== null || holders !== undefined,
  );
  if (attempts.length === 0) return null;
  return (
    <section aria-labelledby="snapshots-title">
      <h2 id="snapshots-title">What its memory held</h2>
      {attempts.map((attempt, at) => (
        // The newest tells most about where the job stands.
        <details key={attempt.number} open={at === attempts.length - 1}>
          <summary>Attempt {attempt.number}</summary>
          {attempt.snapshot === null ? (
            <Processes attempt={attempt} />
          ) : (
            <Snapshot job={job} number={attempt.number} snapshot={attempt.snapshot} />
          )}
        </details>
      ))}
    </section>
  );
}

function Processes({ attempt }: { attempt: Attempt }) {
  const words = holderWords(attempt);
  if (words === undefined) return null;
  return (
    <>
      <p>{words.title}</p>
      <ul class="findings">
        {words.processes.map(({ bytes, command }) => (
          <li key={command}>
            {bytes} <code>{command}</code>
          </li>
        ))}
      </ul>
      <p>
        <small>{words.note}</small>
      </p>
    </>
  );
}

function Snapshot({
  job,
  number,
  snapshot,
}: {
  job: JobView;
  number: number;
  snapshot: NonNullable<Attempt['snapshot']>;
}) {
  return (
    <>
      <ul class="findings">
        {snapshot.findings.map((finding) => (
          <li key={finding}>{finding}</li>
        ))}
      </ul>
      <p>
        <a href={snapshotAddress(job.id, number)} target="_blank" rel="noreferrer">
          Open the snapshot of attempt {number}
        </a>{' '}
        <small>
          In a terminal: <code>plimsoll snapshot {snapshot.file}</code>
        </small>
      </p>
    </>
  );
}

/** Variables that submit or serve changed for a job. */
function EnvironmentChanges({ job }: { job: JobView }) {
  const changes = job.environmentChanges;
  if (changes.length === 0) return null;
  return (
    <section aria-labelledby="environment-title">
      <h2 id="environment-title">Changes of the environment</h2>
      <div class="scroll" tabIndex={0} role="region" aria-label="Changes, as a table">
        <table>
          <caption class="aside">Changes of the environment of job {job.id}</caption>
          <thead>
            <tr>
              <th scope="col">Variable</th>
              <th scope="col">Before</th>
              <th scope="col">Now</th>
              <th scope="col">By</th>
              <th scope="col">Why</th>
            </tr>
          </thead>
          <tbody>
            {changes.map(({ name, from, to, by, reason }) => (
              <tr key={`${by} ${name}`}>
                <td>
                  <code>{name}</code>
                </td>
                <td>{from ?? 'not set'}</td>
                <td>{to ?? 'removed'}</td>
                <td>{by}</td>
                <td class="sentence">{reason}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

/** What happened, step by step, with the reasons. */
function StoryLine({ job }: { job: JobView }) {
  const steps = storyOf(job);
  const start = job.startedAt === null ? undefined : Date.parse(job.startedAt);
  return (
    <section aria-labelledby="story-title">
      <h2 id="story-title">What happened</h2>
      <ol class="story">
        {steps.map(({ atMs, kind, title, detail }) => (
          <li key={`${atMs} ${title}`} class={kind}>
            <time
              dateTime={new Date(atMs).toISOString()}
              title={clockWords(new Date(atMs).toISOString())}
            >
              {start !== undefined && atMs > start + 500
                ? `+${formatSeconds((atMs - start) / 1000)}`
                : clockWords(new Date(atMs).toISOString()).slice(11)}
            </time>
            <div>
              <b>{title}</b>
              <p>{detail}</p>
            </div>
          </li>
        ))}
      </ol>
    </section>
  );
}
