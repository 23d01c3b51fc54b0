import type { TensorGroup } from './model.js';

/**
 * Collects the parameters of a model under their names in transformers, numbers written as `*`.
 * A scope stands for `count` copies of everything added in it.
 *
 * @example
 * const parameters = new ParameterList();
 * const layer = parameters.scope('model.layers.*', 32);
 * layer.linear('mlp.up_proj', 4096, 11008, false);
 * parameters.count(); // 1442840576
 */
export class ParameterList {
  readonly #groups: Map<string, TensorGroup>;
  readonly #prefix: string;
  readonly #copies: number;

  constructor(groups = new Map<string, TensorGroup>(), prefix = '', copies = 1) {
    this.#groups = groups;
    this.#prefix = prefix;
    this.#copies = copies;
  }

  /** `copies` copies of what is added to the answer; an empty prefix adds no part to the name. */
  scope(prefix: string, copies = 1): ParameterList {
    const joined = prefix === '' ? this.#prefix : `${this.#prefix}${prefix}.`;
    return new ParameterList(this.#groups, joined, this.#copies * copies);
  }

  tensor(name: string, shape: readonly number[], trainable = true): void {
    if (this.#copies === 0) return;
    const full = this.#prefix + name;
    const key = `${full} ${shape.join('x')} ${trainable}`;
    const count = (this.#groups.get(key)?.count ?? 0) + this.#copies;
    this.#groups.set(key, { name: full, shape, count, trainable });
  }

  /** A matrix of `output` rows, as torch keeps it. */
  linear(name: string, input: number, output: number, bias = true): void {
    this.tensor(`${name}.weight`, [output, input]);
    if (bias) this.tensor(`${name}.bias`, [output]);
  }

  norm(name: string, size: number, kind: 'layer' | 'rms' = 'layer'): void {
    this.tensor(`${name}.weight`, [size]);
    if (kind === 'layer') this.tensor(`${name}.bias`, [size]);
  }

  embedding(name: string, rows: number, size: number): void {
    this.tensor(`${name}.weight`, [rows, size]);
  }

  /** `shape`: output channels, input channels of a group, then the kernel. */
  convolution(name: string, shape: readonly [number, ...number[]], bias = true): void {
    this.tensor(`${name}.weight`, shape);
    if (bias) this.tensor(`${name}.bias`, [shape[0]]);
  }

  groups(): readonly TensorGroup[] {
    return [...this.#groups.values()];
  }

  /** May pass what a number holds exactly; the caller must check. */
  count(trainableOnly = false): number {
    let total = 0;
    for (const { shape, count, trainable } of this.#groups.values()) {
      if (trainable || !trainableOnly) total += count * elementsOf(shape);
    }
    return total;
  }
}

export function elementsOf(shape: readonly number[]): number {
  return shape.reduce((product, size) => product * size, 1);
}
