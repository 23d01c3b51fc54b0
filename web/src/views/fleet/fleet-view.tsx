import { useState } from 'preact/hooks';
import { wasteOf } from '../../../../src/fleet/fleet-jobs.js';
import {
  fleetBytes,
  fleetHeadline,
  fullIn,
  ranksWords,
  trainingName,
} from '../../../../src/report/fleet-words.js';
import { percentOf, percentWords, rateWords } from '../../../../src/report/words.js';
import { formatBytes } from '../../../../src/units/bytes.js';
import { formatSeconds } from '../../../../src/units/durations.js';
import type {
  Fleet,
  FleetHistory,
  FleetJob,
  FleetLeak,
  FleetRank,
  FleetTraining,
} from '../../api/types.js';
import { Empty } from '../../parts/empty.js';
import { RefusalNote } from '../../parts/refusal-note.js';
import { useFleet } from '../../state/fleet/use-fleet.js';
import { NodeList } from './node-list.js';

/** All nodes that the server's Prometheus scrapes. */
export function FleetView() {
  const { fleet, refusal } = useFleet();
  if (refusal?.code === 'no-fleet') {
    return (
      <>
        <h1>Fleet</h1>
        <Empty
          title="This server knows no Prometheus."
          command="plimsoll serve --prometheus http://prometheus:9090"
        >
          The fleet is what a Prometheus knows of the nodes that run <code>plimsoll exporter</code>.
          Start the server with its address:
        </Empty>
      </>
    );
  }
  return (
    <>
      <h1>Fleet</h1>
      {refusal !== undefined && <RefusalNote refusal={refusal} />}
      {fleet === undefined && refusal === undefined && <p class="nothing">Asking Prometheus …</p>}
      {fleet !== undefined && fleet.nodes.length === 0 && (
        <Empty title="Prometheus knows no node of ours." command="plimsoll exporter --host 0.0.0.0">
          Start the exporter on each node, and let Prometheus scrape it:
        </Empty>
      )}
      {fleet !== undefined && fleet.nodes.length > 0 && (
        <>
          <p class="lede">{fleetHeadline(fleet.totals)}.</p>
          <div class="fleet-top">
            <FleetFacts fleet={fleet} />
            <HistoryLines fleet={fleet} />
          </div>
          <TrainingList trainings={fleet.trainings} />
          <LeakTable leaks={fleet.leaks} />
          <WasteTable jobs={fleet.wasteful} />
          <NodeList nodes={fleet.nodes} />
        </>
      )}
    </>
  );
}

/** The sums of the fleet. */
function FleetFacts({ fleet: { totals } }: { fleet: Fleet }) {
  const { usedBytes, totalBytes, reservedBytes, unusedBytes } = totals;
  const facts: readonly (readonly [string, string])[] = [
    ['Used', `${fleetBytes(usedBytes)}, ${percentWords(percentOf(usedBytes, totalBytes))}`],
    ['Reserved', fleetBytes(reservedBytes)],
    ['Reserved and unused', fleetBytes(unusedBytes)],
    ['Devices at risk', totals.atRisk.toLocaleString('en-US')],
    ['Leaks', totals.leaking.toLocaleString('en-US')],
    ['Jobs', totals.jobs.toLocaleString('en-US')],
  ];
  return (
    <dl class="fleet-facts">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** Used and reserved, as shares of the whole fleet, over the last hour. */
function HistoryLines({ fleet }: { fleet: Fleet }) {
  const { history, windowSeconds } = fleet;
  if (history.epochMs.length < 2) return null;
  const last = `the last ${formatSeconds(windowSeconds)}`;
  return (
    <figure class="fleet-history">
      <svg
        viewBox="0 0 100 100"
        preserveAspectRatio="none"
        role="img"
        aria-label={`Used and reserved memory, ${last}`}
      >
        <path class="reserved" d={linePath(history.reservedBytes, history)} />
        <path class="used" d={linePath(history.usedBytes, history)} />
      </svg>
      <figcaption>
        <i class="fleet-key used" /> used <i class="fleet-key reserved" /> reserved, {last}
      </figcaption>
    </figure>
  );
}

/** Points of a line in a box of 100 by 100; where nothing is known the line is broken. */
function linePath(
  values: FleetHistory['usedBytes'],
  { epochMs, totalBytes }: Pick<FleetHistory, 'epochMs' | 'totalBytes'>,
): string {
  const first = epochMs[0] ?? 0;
  const span = Math.max(1, (epochMs.at(-1) ?? 0) - first);
  let isDrawing = false;
  return values
    .map((value, at) => {
      const total = totalBytes[at] ?? null;
      if (value === null || total === null || total <= 0) {
        isDrawing = false;
        return '';
      }
      const x = (((epochMs[at] ?? first) - first) / span) * 100;
      const y = 100 - Math.min(1, value / total) * 100;
      const step = `${isDrawing ? 'L' : 'M'}${x.toFixed(2)} ${y.toFixed(2)}`;
      isDrawing = true;
      return step;
    })
    .join('');
}

const shownTrainings = 5;
/** More bars than pixels show nothing more. */
const shownRanks = 512;

/** Distributed trainings, those with a warning first. */
function TrainingList({ trainings }: { trainings: readonly FleetTraining[] }) {
  const [all, setAll] = useState(false);
  if (trainings.length === 0) return null;
  const shown = all ? trainings : trainings.slice(0, shownTrainings);
  return (
    <section aria-labelledby="trainings-title">
      <h2 id="trainings-title">Distributed trainings</h2>
      <ul class="trainings">
        {shown.map((training) => (
          <TrainingItem key={`${training.engine} ${training.id}`} training={training} />
        ))}
      </ul>
      {shown.length < trainings.length && (
        <button type="button" class="quiet" onClick={() => setAll(true)}>
          Show all {trainings.length.toLocaleString('en-US')}
        </button>
      )}
    </section>
  );
}

function TrainingItem({ training }: { training: FleetTraining }) {
  const { ranks, warnings, tightest, spreadBytes } = training;
  const tight = ranks.find(({ rank }) => rank === tightest);
  return (
    <li>
      <h3>{trainingName(training)}</h3>
      <p>
        {ranksWords(training)}, spread {formatBytes(spreadBytes)}
        {tight !== undefined &&
          `, tightest: rank ${tight.rank} on ${tight.node}/${tight.device} with ${formatBytes(tight.freeBytes)} free`}
      </p>
      <RankBars ranks={ranks.slice(0, shownRanks)} tightest={tight} />
      {warnings.map((warning) => (
        <p key={warning} class="training-warning">
          {warning}
        </p>
      ))}
    </li>
  );
}

/** A bar for each rank, as high as what it holds beside the largest of them. */
function RankBars({
  ranks,
  tightest,
}: {
  ranks: readonly FleetRank[];
  tightest: FleetRank | undefined;
}) {
  const most = Math.max(1, ...ranks.map(({ usedBytes }) => usedBytes));
  return (
    <svg
      class="rank-bars"
      viewBox={`0 0 ${ranks.length * 10} 40`}
      preserveAspectRatio="none"
      role="img"
      aria-label={`Memory of ${ranks.length} ranks, the most is ${formatBytes(most)}`}
    >
      {ranks.map((rank, at) => {
        const height = Math.max(1, Math.round((rank.usedBytes / most) * 400) / 10);
        const kind = rank === tightest ? 'tightest' : `risk-${rank.risk}`;
        return (
          <rect
            key={`${rank.rank} ${rank.device}`}
            class={rank.leakBytesPerSecond === null ? kind : `${kind} leaks`}
            x={at * 10 + 1}
            y={40 - height}
            width="8"
            height={height}
          >
            <title>{rankWords(rank)}</title>
          </rect>
        );
      })}
    </svg>
  );
}

function rankWords(rank: FleetRank): string {
  const full = fullIn(rank);
  return `Rank ${rank.rank}, ${rank.node}/${rank.device}: ${formatBytes(rank.usedBytes)}, ${formatBytes(rank.freeBytes)} free there${full === '' ? '' : `, full in ${full} (estimated)`}`;
}

/** More do not help on one page. */
const shownRows = 10;

/** Who leaks. */
function LeakTable({ leaks }: { leaks: readonly FleetLeak[] }) {
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
function WasteTable({ jobs }: { jobs: readonly FleetJob[] }) {
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
