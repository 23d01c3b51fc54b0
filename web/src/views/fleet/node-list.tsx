import { useMemo, useState } from 'preact/hooks';
import { fullIn, riskWords } from '../../../../src/report/fleet-words.js';
import { count, percentOf, percentWords, usedOfTotal } from '../../../../src/report/words.js';
import { formatBytes } from '../../../../src/units/bytes.js';
import { isKnown, type Known } from '../../../../src/units/known.js';
import type { FleetDevice, FleetNode } from '../../api/types.js';
import { memo } from '../../parts/memo.js';
import { type RowHeights, type RowStyle, VirtualRows } from '../../parts/virtual-rows.js';
import { type FleetChoice, filterNodes, fleetChoices } from '../../state/fleet/use-fleet.js';

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
export function NodeList({ nodes }: { nodes: readonly FleetNode[] }) {
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
