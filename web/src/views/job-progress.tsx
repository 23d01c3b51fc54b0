import {
  chartSize,
  type ProgressLines,
  progressLines,
} from '../../../src/report/progress-lines.js';
import type { JobView } from '../api/types.js';

const { width, height } = chartSize;

/** Throughput, memory and loss over the steps of each attempt that told of some, recoveries marked. */
export function JobProgress({ job }: { job: JobView }) {
  const reported = job.attempts.flatMap((attempt) => {
    const found = progressLines(attempt);
    return found === undefined ? [] : [{ number: attempt.number, found }];
  });
  if (reported.length === 0) return null;
  return (
    <section aria-labelledby="progress-title">
      <h2 id="progress-title">Over its steps</h2>
      {reported.map(({ number, found }) => (
        <div key={number} class="progress">
          <p class="soft">
            {job.attempts.length > 1 && `Attempt ${number}: `}
            {found.summary}
          </p>
          <Lines {...found} />
        </div>
      ))}
    </section>
  );
}

function Lines({ lines, marks }: ProgressLines) {
  return (
    <div class="progress-lines">
      {lines.map(({ name, last, path }) => (
        <figure key={name}>
          <figcaption>
            {name}, at the end {last}
          </figcaption>
          <svg
            viewBox={`0 0 ${width} ${height}`}
            preserveAspectRatio="none"
            role="img"
            aria-label={`${name} over the steps, at the end ${last}; ${marks.length} recoveries`}
          >
            {marks.map(({ x, rung, why }) => (
              <line key={`${x} ${rung}`} class="recovery" x1={x} x2={x} y1={0} y2={height}>
                <title>{`${rung}: ${why}`}</title>
              </line>
            ))}
            <polyline points={path} />
          </svg>
        </figure>
      ))}
    </div>
  );
}
