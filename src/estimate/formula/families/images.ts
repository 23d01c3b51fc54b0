import type { Workload } from '../../types.js';

/** Height and width of an image: as asked for, or as the model was made for. */
export function imageEdges(
  { image, sequence }: Workload,
  imageSize: readonly [number, number],
): readonly [number, number] {
  const edge = image ?? sequence;
  return edge === undefined ? imageSize : [edge, edge];
}
