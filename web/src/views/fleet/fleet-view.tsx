import { useMemo, useState } from 'preact/hooks';
import { wasteOf } from '../../../../src/fleet/fleet-jobs.js';
import {
  fleetBytes,
  fleetHeadline,
  fullIn,
  ranksWords,
  riskWords,
  trainingName,
} from '../../../../src/report/fleet-words.js';
import {
  count,
  percentOf,
  percentWords,
  rateWords,
  usedOfTotal,
} from '../../../../src/report/words.js';
import { formatBytes } from '../../../../src/units/bytes.js';
import { formatSeconds } from '../../../../src/units/durations.js';
import { isKnown, type Known } from '../../../../src/units/known.js';
import type {
  Fleet,
  FleetDevice,
  FleetHistory,
  FleetJob,
  FleetLeak,
  FleetNode,
  FleetRank,
  FleetTraining,
} from '../../api/types.js';
import { memo } from '../../parts/memo.js';
import { Empty, RefusalNote } from '../../parts/notes.js';
import { type RowHeights, type RowStyle, VirtualRows } from '../../parts/virtual-rows.js';
import {
  type FleetChoice,
  filterNodes,
  fleetChoices,
  useFleet,
} from '../../state/fleet/use-fleet.js';

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

/** Lists leaks. */
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

const deck = 2;
const keel = 42;
/** Below this height of the hull its sides are round. */
const bilge = 8;
const outline = filledTo(keel - deck);

/** The inside of the hull up to a height: cut by hand, as 300 clipped pictures make scrolling slow. */
function filledTo(height: number): string {
  const top = Math.round((keel - height) * 10) / 10;
  if (height >= bilge) return `M3 ${top}V34Q3 ${keel} 11 ${keel}H25Q33 ${keel} 33 34V${top}`;
  const inset = Math.round((3 + 8 * (1 - height / bilge) ** 2) * 10) / 10;
  return `M${inset} ${top}Q${inset + 2} ${keel} 11 ${keel}H25Q${34 - inset} ${keel} ${36 - inset} ${top}Z`;
}

/** A device of a node: reserved in the hull, used as its water, the load line across. */
function SmallHull({ device }: { device: FleetDevice }) {
  const { totalBytes, usedBytes, reservedBytes, loadLineBytes, risk, silent } = device;
  const used = heightOf(usedBytes, totalBytes);
  const reserved = heightOf(reservedBytes, totalBytes);
  const line = heightOf(loadLineBytes, totalBytes);
  const leaks = device.leakBytesPerSecond !== null;
  const kind = silent ? 'silent' : `risk-${risk}`;
  return (
    <svg class={`small-hull ${kind}`} viewBox="0 0 36 44" role="img" aria-label={hullWords(device)}>
      <title>{hullWords(device)}</title>
      {reserved > 0 && <path class="reserved" d={filledTo(reserved)} />}
      {used > 0 && <path class="used" d={filledTo(used)} />}
      <path class="outline" d={outline} />
      {line > 0 && <path class="line" d={`M0 ${keel - line}H36`} />}
      {leaks && <path class="leak" d="M18 30q-5 6 0 8q5 -2 0 -8z" />}
    </svg>
  );
}

function heightOf(part: Known<number>, whole: Known<number>): number {
  if (!isKnown(part) || !isKnown(whole) || whole <= 0) return 0;
  return Math.round(Math.min(1, part / whole) * (keel - deck) * 10) / 10;
}

function hullWords(device: FleetDevice): string {
  const { id, usedBytes, totalBytes, reservedBytes, provenance } = device;
  const full = fullIn(device);
  return [
    `${id}: ${usedOfTotal(usedBytes, totalBytes)} used, ${provenance}`,
    `${formatBytes(reservedBytes)} reserved`,
    device.silent ? 'silent' : `risk ${riskWords(device)}`,
    ...(full === '' ? [] : [`full in ${full}, estimated`]),
    ...(device.leakBytesPerSecond === null ? [] : ['leaks']),
  ].join(', ');
}

/** As the style sheet has them. */
const heights: RowHeights = { wide: 64, narrow: 104 };
/** In one row; the rest is a number. They are those with the greatest risk. */
const shownHulls = 16;

/** All nodes as rows of small hulls, the greatest risk first. */
function NodeList({ nodes }: { nodes: readonly FleetNode[] }) {
  const [choice, setChoice] = useState<FleetChoice>('all');
  const [typed, setTyped] = useState('');
  const listed = useMemo(() => filterNodes(nodes, choice, typed), [nodes, choice, typed]);
  return (
    <section aria-labelledby="nodes-title">
      <h2 id="nodes-title">Nodes</h2>
      <div class="filters">
        <fieldset class="segments">
          <legend class="aside">Which nodes</legend>
          {fleetChoices.map((one) => (
            <label key={one}>
              <input
                type="radio"
                name="fleet-choice"
                checked={choice === one}
                onChange={() => setChoice(one)}
              />
              <span>{one}</span>
            </label>
          ))}
        </fieldset>
        <input
          type="search"
          id="search"
          placeholder="Node or card"
          aria-label="Search the nodes"
          value={typed}
          onInput={(event) => setTyped(event.currentTarget.value)}
        />
      </div>
      {listed.length === 0 ? (
        <p class="nothing">No node is like that.</p>
      ) : (
        <div class="nodes" role="table" aria-label="Nodes" aria-rowcount={listed.length}>
          <VirtualRows
            count={listed.length}
            heights={heights}
            row={(index, style) => {
              const node = listed[index];
              return node && <NodeRow key={node.name} node={node} index={index} style={style} />;
            }}
          />
        </div>
      )}
    </section>
  );
}

/** Scrolling draws those that come in, not again those that are there. */
const NodeRow = memo(
  DrawnNode,
  (one, other) =>
    one.node === other.node &&
    one.index === other.index &&
    one.style.transform === other.style.transform,
);

function DrawnNode({ node, index, style }: { node: FleetNode; index: number; style: RowStyle }) {
  const more = node.devices.length - shownHulls;
  return (
    <div role="row" class="node-row" aria-rowindex={index + 1} style={{ ...style }}>
      <span role="rowheader" class="of-node">
        {node.name}
        <small>{cardWords(node)}</small>
      </span>
      <span role="cell" class="of-hulls">
        {node.devices.slice(0, shownHulls).map((device) => (
          <SmallHull key={device.id} device={device} />
        ))}
        {more > 0 && <small>+{more}</small>}
      </span>
      <span role="cell" class="of-worst">
        <WorstDevice node={node} />
      </span>
    </div>
  );
}

function cardWords({ devices }: FleetNode): string {
  const gpus = devices.filter(({ id }) => id !== 'host');
  const card = gpus[0]?.name ?? '';
  return gpus.length === 0 ? 'no GPU' : `${count(gpus.length, 'GPU')}, ${card}`;
}

/** Devices are in the order of their risk: the first one says how the node is. */
function WorstDevice({ node }: { node: FleetNode }) {
  const [worst] = node.devices;
  if (worst === undefined) return null;
  const full = fullIn(worst);
  const used = percentOf(worst.usedBytes, worst.totalBytes);
  return (
    <>
      <b class={worst.silent ? 'silent' : `risk-${worst.risk}`}>
        {worst.id} {worst.silent ? 'is silent' : `risk ${riskWords(worst)}`}
      </b>
      <small>
        {isKnown(used) && `${percentWords(used)} used`}
        {full !== '' && `, full in ${full} (estimated)`}
        {worst.leakBytesPerSecond !== null && ', leaks'}
      </small>
    </>
  );
}
