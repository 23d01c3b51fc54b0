import type { RankPoint } from '../../estimate/over-ranks.js';
import { type Part, parts } from '../../estimate/types.js';
import { fitOf } from '../../plan/fit/fit.js';
import { formatBytes } from '../../units/bytes.js';
import type { EstimateGpu } from '../estimate-words.js';

/** What fills a rank of a job, for each of some counts of ranks. */
export interface OverRanks {
  readonly parallel: string;
  readonly gpu: EstimateGpu;
  readonly overRanks: readonly RankPoint[];
  readonly notes: readonly string[];
}

export const fitWords = { surely: 'fits', tightly: 'may fit', no: 'too large' } as const;

/** `It fits into the 79.6 GiB of this card from 4 GPUs on.` */
export function ranksVerdict({ overRanks, gpu }: OverRanks): string {
  const capacity = formatBytes(gpu.capacityBytes);
  const fits = overRanks.map((point) => fitOf(point, gpu.capacityBytes) === 'surely');
  const from = fits.lastIndexOf(false) + 1;
  const first = overRanks[from]?.ranks.count;
  if (first === undefined) {
    return `It does not surely fit into the ${capacity} of this card, on any of these counts of GPUs.`;
  }
  return from === 0
    ? `It fits into the ${capacity} of this card on each of these counts of GPUs.`
    : `It fits into the ${capacity} of this card from ${first} GPUs on.`;
}

/** Parts that any of the counts has, in their usual order. */
export function partsOver(points: readonly RankPoint[]): readonly Part[] {
  const known = new Set(points.flatMap(({ breakdown }) => breakdown.map(({ part }) => part)));
  return parts.filter((part) => known.has(part));
}

/** What was not traced, where there is such. */
export function betweenNote(points: readonly RankPoint[]): string | undefined {
  if (points.every(({ traced }) => traced)) return undefined;
  const counts = points.filter(({ traced }) => traced).map(({ ranks }) => ranks.count);
  return `Traced with ${counts.join(', ')} GPUs; the others lie between: what is shared out falls with their number.`;
}
