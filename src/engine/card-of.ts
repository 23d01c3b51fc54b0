import { type GpuEntry, gpusNamed } from '../estimate/cards/gpus.js';
import type { Known } from '../units/known.js';

/** What is known of a type of GPU that a cluster names. */
export interface OfferedCard {
  readonly capacityBytes: Known<number>;
  readonly contextBytes: number;
  /** The name may mean cards of several sizes; the smallest is taken. */
  readonly isAmbiguous: boolean;
  /** The word beside the type that says which card it is; undefined where the type says it. */
  readonly feature?: string;
}

/** The card behind a type: what the configuration says of it, else those that the name may mean. */
export function cardOf(
  type: string,
  /** Words that may say what the type leaves open: a100 with the feature a100-80gb. */
  features: readonly string[],
  gpuBytes: Readonly<Record<string, number>>,
  configured: readonly GpuEntry[],
): OfferedCard {
  const named = type === '' ? [] : gpusNamed(type, configured);
  const contextBytes = Math.max(0, ...named.map(({ context }) => context.bytes));
  const feature = type === '' ? features.find((one) => gpuBytes[one] !== undefined) : undefined;
  const said = gpuBytes[feature ?? (type === '' ? 'gpu' : type)];
  if (said !== undefined) {
    return { capacityBytes: said, contextBytes, isAmbiguous: false, ...(feature && { feature }) };
  }
  const featured = features
    .flatMap((one) => {
      const [card, ...others] = gpusNamed(one, configured);
      return card === undefined || others.length > 0 ? [] : [{ card, feature: one }];
    })
    .find(({ card }) => named.length === 0 || named.includes(card));
  const cards = featured === undefined ? named : [featured.card];
  const capacities = cards.map(({ capacityBytes }) => capacityBytes);
  return {
    capacityBytes: cards.length === 0 ? 'unknown' : Math.min(...capacities),
    contextBytes: Math.max(0, ...cards.map(({ context }) => context.bytes)),
    isAmbiguous: new Set(capacities).size > 1,
    ...(featured && { feature: featured.feature }),
  };
}
