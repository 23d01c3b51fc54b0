import { holderWords } from '../../../../src/report/run-holders.js';
import { snapshotAddress } from '../../api/client.js';
import type { JobView } from '../../api/types.js';

type Attempt = JobView['attempts'][number];

/**
 * What held the memory of attempts that ran out of it: by the snapshot that one left behind, or else
 * its largest processes, as they were last read.
 */
export function SnapshotFindings({ job }: { job: JobView }) {
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
