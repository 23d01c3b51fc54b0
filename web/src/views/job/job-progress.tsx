import {
  chartSize,
  lastWords,
  type ProgressLines,
  progressLines,
} from '../../../../src/report/progress-lines.js';
import type { JobView } from '../../api/types.js';

const { width, height } = chartSize;

/** Throughput, memory and loss over the steps of each attempt that told of some, recoveries marked; also while it runs. */
export function JobProgress({ job }: { job: JobView }) {
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
        <figure key={line.name}>
          <figcaption>{lastWords(line, goesOn)}</figcaption>
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
            <polyline points={line.path} />
          </svg>
        </figure>
      ))}
    </div>
  );
}
