import type { Block } from './recorder.js';

/** Where the gradient of a tensor is collected. */
export interface Source {
  readonly elements: number;
  readonly width: number;
  /** A parameter: what is collected stays until the optimizer has used it. */
  readonly leaf: boolean;
  collected: Block | undefined;
  /** What earlier batches of the same step collected, where gradients are added up. */
  earlier?: Block | undefined;
}

/** Elements of one width in a block; shapes are known to the ops that work with it. */
export interface Tensor {
  readonly elements: number;
  /** Bytes of an element. */
  readonly width: number;
  readonly block: Block;
  /** Absent where it needs no gradient. */
  readonly source: Source | undefined;
  /** The op that takes it as its input is the last to do so. */
  passing: boolean;
  dropped: boolean;
}

/** Hands a tensor to the next op for good, as an expression does whose value has no name. */
export function last(tensor: Tensor): Tensor {
  tensor.passing = true;
  return tensor;
}

export function bytesIn(tensor: { readonly elements: number; readonly width: number }): number {
  return tensor.elements * tensor.width;
}
