import type { GpuEntry } from '../../estimate/cards/gpus.js';
import { isKnown } from '../../units/known.js';
import { cardOf, type OfferedCard } from '../card-of.js';
import type { RayNode } from './nodes.js';

/** What the configuration says about a cluster. */
export interface RaySettings {
  /** Of the dashboard. */
  readonly address?: string | undefined;
  /** Bytes of a GPU, by its type in Ray. */
  readonly gpuBytes?: Readonly<Record<string, number>> | undefined;
}

/** GPUs of one type and size that nodes have. */
export interface RayOffer extends OfferedCard {
  /** Empty where Ray names none. */
  readonly type: string;
  readonly typeBy: RayNode['typeBy'];
  /** On one node, at most. */
  readonly count: number;
}

/** All kinds of GPU of a cluster: the configuration, else the driver, else the name says its size. */
export function rayOffers(
  nodes: readonly RayNode[],
  { gpuBytes = {} }: RaySettings,
  configured: readonly GpuEntry[],
): readonly RayOffer[] {
  const offers = nodes
    .filter(({ gpus }) => gpus > 0)
    .map((node) => offerOf(node, gpuBytes, configured));
  const kinds = new Map<string, RayOffer>();
  for (const offer of offers) {
    const kind = `${offer.type} ${offer.capacityBytes}`;
    const count = Math.max(offer.count, kinds.get(kind)?.count ?? 0);
    kinds.set(kind, { ...offer, count });
  }
  return [...kinds.values()];
}

function offerOf(
  node: RayNode,
  gpuBytes: Readonly<Record<string, number>>,
  configured: readonly GpuEntry[],
): RayOffer {
  const { type, typeBy, gpus: count } = node;
  const card = cardOf(type, [], gpuBytes, configured);
  const isSaid = gpuBytes[type === '' ? 'gpu' : type] !== undefined;
  const fromDriver = isKnown(node.gpuBytes) && !isSaid;
  const size = fromDriver ? { capacityBytes: node.gpuBytes, isAmbiguous: false } : {};
  return { type, typeBy, count, ...card, ...size };
}
