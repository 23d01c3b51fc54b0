import type { FleetDevice, FleetRank, FleetTotals, FleetTraining } from '../fleet/document.js';
import { formatBytes } from '../units/bytes.js';
import { formatSeconds } from '../units/durations.js';
import { isKnown, type Known } from '../units/known.js';
import { count } from './words.js';

const TiB = 1024 ** 4;

/** As elsewhere, and TiB for sums over many nodes. */
export function fleetBytes(bytes: Known<number>): string {
  return isKnown(bytes) && bytes >= TiB ? `${(bytes / TiB).toFixed(1)} TiB` : formatBytes(bytes);
}

/** `1,000 nodes (3 silent), 8,000 GPUs, 625.0 TiB` */
export function fleetHeadline(totals: FleetTotals): string {
  const { nodes, silentNodes, of, devices, simulated, totalBytes } = totals;
  const silent = silentNodes === 0 ? '' : ` (${silentNodes.toLocaleString('en-US')} silent)`;
  const what = of === 'gpu' ? count(devices, 'GPU') : `memory of ${count(devices, 'host')}`;
  const made = simulated === 0 ? '' : ` (${simulated.toLocaleString('en-US')} simulated)`;
  return `${count(nodes, 'node')}${silent}, ${what}${made}, ${fleetBytes(totalBytes)}`;
}

/** When a device is expected to be full: `45 s`, `now`; empty where it is not. */
export function fullIn({ etaSeconds }: Pick<FleetDevice | FleetRank, 'etaSeconds'>): string {
  if (etaSeconds === null) return '';
  return etaSeconds < 1 ? 'now' : formatSeconds(etaSeconds);
}

export function riskWords({ silent, risk }: Pick<FleetDevice, 'silent' | 'risk'>): string {
  return silent ? 'silent' : risk;
}

/** `slurm 4711 (finetune)` */
export function trainingName({ engine, id, name }: FleetTraining): string {
  const known = [engine, id].filter((one) => one !== '').join(' ');
  return name === '' || name === id ? known : `${known} (${name})`;
}

/** `16 ranks on 2 nodes`, `15 of 16 ranks on 2 nodes` */
export function ranksWords({ ranks, worldSize }: FleetTraining): string {
  const seen = new Set(ranks.map(({ rank }) => rank)).size;
  const nodes = new Set(ranks.map(({ node }) => node)).size;
  const all = isKnown(worldSize) && worldSize !== seen ? `${seen} of ` : '';
  const size = isKnown(worldSize) ? worldSize : seen;
  return `${all}${count(size, 'rank')} on ${count(nodes, 'node')}`;
}
