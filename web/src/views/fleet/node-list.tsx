import { useMemo, useState } from 'preact/hooks';
import { fullIn, riskWords } from '../../../../src/report/fleet-words.js';
import { count, percentOf, percentWords } from '../../../../src/report/words.js';
import { isKnown } from '../../../../src/units/known.js';
import type { FleetNode } from '../../api/types.js';
import { SmallHull } from '../../parts/fleet/small-hull.js';
import { memo } from '../../parts/memo.js';
import { type RowHeights, type RowStyle, VirtualRows } from '../../parts/virtual-rows.js';
import { type FleetChoice, filterNodes, fleetChoices } from '../../state/fleet/filter-nodes.js';

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
