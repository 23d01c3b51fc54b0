import { fullIn, riskWords } from '../../../../src/report/fleet-words.js';
import { usedOfTotal } from '../../../../src/report/words.js';
import { formatBytes } from '../../../../src/units/bytes.js';
import { isKnown, type Known } from '../../../../src/units/known.js';
import type { FleetDevice } from '../../api/types.js';

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
export function SmallHull({ device }: { device: FleetDevice }) {
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
