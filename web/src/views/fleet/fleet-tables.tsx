import { wasteOf } from '../../../../src/fleet/fleet-jobs.js';
import { fullIn } from '../../../../src/report/fleet-words.js';
import { rateWords } from '../../../../src/report/words.js';
import { formatBytes } from '../../../../src/units/bytes.js';
import type { FleetJob, FleetLeak } from '../../api/types.js';

/** More do not help on one page. */
const shownRows = 10;

/** Who leaks. */
export function LeakTable({ leaks }: { leaks: readonly FleetLeak[] }) {
  return (
    <FleetTable
      title="Leaks"
      head={['Node', 'Device', 'Grows', 'Full in (estimated)', 'Process', 'User']}
      count={leaks.length}
      rows={leaks
        .slice(0, shownRows)
        .map(({ process, ...leak }) => [
          leak.node,
          leak.device,
          rateWords(leak.bytesPerSecond),
          fullIn(leak),
          process === null ? '' : `${process.pid} ${process.name}`,
          process?.user ?? '',
        ])}
    />
  );
}

/** Jobs that reserved most above their peak. */
export function WasteTable({ jobs }: { jobs: readonly FleetJob[] }) {
  return (
    <FleetTable
      title="Jobs that reserved most above their peak"
      head={['Job', 'Name', 'On', 'Reserved', 'Peak', 'Never used']}
      count={jobs.length}
      rows={jobs
        .slice(0, shownRows)
        .map((job) => [
          [job.engine, job.id].join(' ').trim(),
          job.name,
          `${job.node} ${job.devices.join(' ')}`,
          formatBytes(job.reservedBytes ?? 'unknown'),
          formatBytes(job.peakBytes),
          formatBytes(wasteOf(job)),
        ])}
    />
  );
}

function FleetTable(props: {
  title: string;
  head: readonly string[];
  rows: readonly (readonly string[])[];
  count: number;
}) {
  if (props.count === 0) return null;
  return (
    <section aria-label={props.title}>
      <h2>{props.title}</h2>
      <div class="fleet-table" tabIndex={0} role="region" aria-label={`${props.title}, as a table`}>
        <table>
          <thead>
            <tr>
              {props.head.map((title) => (
                <th key={title} scope="col">
                  {title}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {props.rows.map((row) => (
              <tr key={row.join(' ')}>
                {row.map((cell, at) => (
                  <td key={props.head[at]}>{cell}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {props.count > props.rows.length && (
        <p class="nothing">
          and {(props.count - props.rows.length).toLocaleString('en-US')} more, in the terminal with{' '}
          <code>plimsoll fleet --all</code>
        </p>
      )}
    </section>
  );
}
