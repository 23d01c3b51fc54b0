import { formatBytes } from '../../../../src/units/bytes.js';
import { formatSeconds } from '../../../../src/units/durations.js';
import { isKnown } from '../../../../src/units/known.js';
import type { Attempt, JobView } from '../../api/types.js';
import { useNow } from '../../parts/clock.js';
import { spanWords } from '../../parts/words.js';
import { declaredSettings, endWords } from '../../state/jobs/job-story.js';

/** Every try: its settings, how it ended, what it took, what held it. */
export function AttemptsTable({ job }: { job: JobView }) {
  const now = useNow();
  const { attempts, currentAttempt } = job;
  if (attempts.length === 0 && currentAttempt === null) return null;
  const all =
    currentAttempt === null ? attempts : [...attempts, { ...currentAttempt, outOfMemory: null }];
  const known = knownOf(all, job.command);
  return (
    <section aria-labelledby="attempts-title">
      <h2 id="attempts-title">Attempts</h2>
      <div class="scroll" tabIndex={0} role="region" aria-label="Attempts, as a table">
        <table>
          <caption class="aside">Attempts of job {job.id}</caption>
          <thead>
            <tr>
              <th scope="col" class="number">
                Try
              </th>
              {known.batch && <th scope="col">Batch × accumulation</th>}
              {known.checkpointing && <th scope="col">Checkpointing</th>}
              {known.precision && <th scope="col">Precision</th>}
              <th scope="col">Ended</th>
              {known.asked && (
                <th scope="col" class="number">
                  Asked for
                </th>
              )}
              <th scope="col" class="number">
                Peak
              </th>
              <th scope="col">Limit</th>
              <th scope="col" class="number">
                Took
              </th>
            </tr>
          </thead>
          <tbody>
            {attempts.map((attempt) => (
              <Row key={attempt.number} attempt={attempt} command={job.command} known={known} />
            ))}
            {currentAttempt !== null && (
              <tr key={currentAttempt.number}>
                <Settings {...currentAttempt} command={job.command} known={known} />
                <td>goes on</td>
                {known.asked && <td />}
                <td />
                <td />
                <td class="number">{spanWords(currentAttempt.startedAt, now)}</td>
              </tr>
            )}
          </tbody>
        </table>
      </div>
      {all.length > 1 && <BatchSteps attempts={all} />}
    </section>
  );
}

/** Settings that are known of any attempt; the others get no column. */
interface KnownSettings {
  readonly batch: boolean;
  readonly checkpointing: boolean;
  readonly precision: boolean;
  /** How much was asked for when memory ran out. */
  readonly asked: boolean;
}

function knownOf(
  attempts: readonly Pick<Attempt, 'settings' | 'outOfMemory'>[],
  command: readonly string[],
): KnownSettings {
  const declared = attempts.map(({ settings }) => declaredSettings(command, settings));
  return {
    batch: attempts.some(({ settings }) => isKnown(settings.batch_size)),
    checkpointing: declared.some(({ checkpointing }) => checkpointing !== undefined),
    precision: declared.some(({ precision }) => precision !== undefined),
    asked: attempts.some(({ outOfMemory }) => isKnown(outOfMemory?.askedBytes ?? 'unknown')),
  };
}

interface OfJob {
  readonly command: readonly string[];
  readonly known: KnownSettings;
}

function Row({ attempt, command, known }: OfJob & { attempt: Attempt }) {
  const { number, settings, outOfMemory, peakBytes, peakFrom, limit, source } = attempt;
  const seconds = (Date.parse(attempt.endedAt) - Date.parse(attempt.startedAt)) / 1000;
  return (
    <tr>
      <Settings number={number} settings={settings} command={command} known={known} />
      <td class={outOfMemory === null ? '' : 'sunk'}>{endWords(attempt)}</td>
      {known.asked && (
        <td class="number">{outOfMemory === null ? '' : formatBytes(outOfMemory.askedBytes)}</td>
      )}
      <td class="number">
        {formatBytes(peakBytes)} {isKnown(peakBytes) && <small>{`${source}, ${peakFrom}`}</small>}
      </td>
      <td>
        {limit.bytes === 'none' ? 'none' : formatBytes(limit.bytes)}{' '}
        <small title={limit.why}>{limit.by === 'none' ? '' : `by ${limit.by}`}</small>
      </td>
      <td class="number">{Number.isFinite(seconds) ? formatSeconds(seconds) : ''}</td>
    </tr>
  );
}

/** A setting that the program is not told is unknown. */
function Settings(props: Pick<Attempt, 'number' | 'settings'> & OfJob) {
  const { number, settings, known } = props;
  const { batch_size, accumulation } = settings;
  const declared = declaredSettings(props.command, settings);
  return (
    <>
      <th scope="row" class="number">
        {number}
      </th>
      {known.batch && (
        <td>
          {isKnown(batch_size) ? (
            <>
              {batch_size} × {accumulation} <small>= {batch_size * accumulation}</small>
            </>
          ) : (
            'unknown'
          )}
        </td>
      )}
      {known.checkpointing && (
        <td>
          {declared.checkpointing === undefined ? 'not set' : declared.checkpointing ? 'yes' : 'no'}
        </td>
      )}
      {known.precision && <td>{declared.precision ?? 'not set'}</td>}
    </>
  );
}

const height = 70;
const step = 64;

/** The batch size over the attempts: each column is one, split by how it is accumulated. */
function BatchSteps({
  attempts,
}: {
  attempts: readonly Pick<Attempt, 'number' | 'settings' | 'outOfMemory'>[];
}) {
  const known = attempts.flatMap(({ number, settings, outOfMemory }) =>
    isKnown(settings.batch_size)
      ? [{ number, batch: settings.batch_size, accumulation: settings.accumulation, outOfMemory }]
      : [],
  );
  if (known.length < 2) return null;
  const most = Math.max(...known.map(({ batch, accumulation }) => batch * accumulation));
  const words = known.map(
    ({ number, batch, accumulation }) => `attempt ${number}: ${batch} × ${accumulation}`,
  );
  return (
    <figure class="batches">
      <figcaption>Batch sizes over the attempts; the effective batch stays</figcaption>
      <svg
        viewBox={`0 0 ${known.length * step} ${height + 34}`}
        width={known.length * step}
        height={height + 34}
        role="img"
        aria-label={words.join(', ')}
      >
        {known.map(({ number, batch, accumulation, outOfMemory }, index) => (
          <g
            key={number}
            transform={`translate(${index * step})`}
            class={outOfMemory === null ? '' : 'sunk'}
          >
            {Array.from({ length: Math.min(accumulation, 32) }, (_, part) => {
              const tall = (batch / most) * height;
              return (
                <rect
                  key={part}
                  x="6"
                  y={height + 12 - (part + 1) * tall + 1}
                  width={step - 16}
                  height={Math.max(1, tall - 1.5)}
                  rx="1.5"
                />
              );
            })}
            <text x={step / 2 - 2} y={height + 28}>
              {batch} × {accumulation}
            </text>
          </g>
        ))}
      </svg>
    </figure>
  );
}
