import type { JobView } from '../../api/types.js';

/** Variables that submit or serve changed for a job. */
export function EnvironmentChanges({ job }: { job: JobView }) {
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
                <td>{reason}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
