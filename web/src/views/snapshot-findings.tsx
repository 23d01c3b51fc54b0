import type { JobView } from '../api/types.js';

/** What the memory snapshots say that attempts left behind: who asked, who held, what would help. */
export function SnapshotFindings({ job }: { job: JobView }) {
  const findings = job.attempts.flatMap(({ number, snapshot }) =>
    snapshot === null || snapshot.findings.length === 0 ? [] : [{ number, snapshot }],
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
            <small>
              All of it: <code>plimsoll snapshot {snapshot.file}</code>
            </small>
          </p>
        </details>
      ))}
    </section>
  );
}
