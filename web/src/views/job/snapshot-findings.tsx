import { snapshotAddress } from '../../api/client.js';
import type { JobView } from '../../api/types.js';

/** What the memory snapshots say that attempts left behind: who asked, who held, what would help. */
export function SnapshotFindings({ job }: { job: JobView }) {
  const findings = job.attempts.flatMap(({ number, snapshot }) =>
    snapshot === null ? [] : [{ number, snapshot }],
  );
  if (findings.length === 0) return null;
  return (
    <section aria-labelledby="snapshots-title">
      <h2 id="snapshots-title">What its memory held</h2>
      {findings.map(({ number, snapshot }, at) => (
        // The newest tells most about where the job stands.
        <details key={number} open={at === findings.length - 1}>
          <summary>Attempt {number}</summary>
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
        </details>
      ))}
    </section>
  );
}
