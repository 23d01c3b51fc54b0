import type { Failure } from '../failure.js';
import { limits } from './limits.js';
import type { WeightGroup, Weights, WeightsOfType } from './model.js';

const numberInName = /(?<=^|\.)\d+(?=\.|$)/g;

interface Tensor {
  readonly name: string;
  readonly type: string;
  readonly shape: readonly number[];
  readonly elements: number;
  readonly bytes: number;
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

/** Adds up the tensors of a model's files, and sees to it that none is there twice. */
export class WeightTally {
  readonly #names = new Set<string>();
  /** Under one name, tensors of layers that differ in shape or type. */
  readonly #groups = new Map<string, Mutable<WeightGroup>[]>();
  readonly #types = new Map<string, Mutable<WeightsOfType>>();
  #nameLength = 0;
  #groupCount = 0;

  /** `fail` makes the error for the file at hand. */
  add(tensor: Tensor, fail: (what: string) => Failure): void {
    const { name, type, elements, bytes } = tensor;
    const before = this.#names.size;
    if (before === limits.tensors) throw fail(`there are over ${limits.tensors} tensors`);
    this.#nameLength += name.length;
    if (this.#nameLength > limits.namesLength) {
      throw fail(`the names of its tensors have over ${limits.namesLength} characters`);
    }
    this.#names.add(name);
    if (this.#names.size === before) throw fail(`there are two tensors "${name}"`);
    this.#addToGroup(tensor, fail);
    const sum = this.#types.get(type) ?? { type, tensors: 0, parameters: 0, bytes: 0 };
    sum.tensors += 1;
    sum.parameters += elements;
    sum.bytes += bytes;
    this.#types.set(type, sum);
  }

  has(name: string): boolean {
    return this.#names.has(name);
  }

  /** Adds up; the sums are exact or an error. */
  total(
    format: Weights['format'],
    files: readonly string[],
    fail: (what: string) => Failure,
  ): Weights {
    const byType = [...this.#types.values()].toSorted((a, b) => b.bytes - a.bytes);
    const parameters = byType.reduce((sum, type) => sum + type.parameters, 0);
    const bytes = byType.reduce((sum, type) => sum + type.bytes, 0);
    if (!Number.isSafeInteger(parameters) || !Number.isSafeInteger(bytes)) {
      throw fail('its tensors have more elements than can be counted exactly');
    }
    const groups = [...this.#groups.values()].flat();
    return { format, files, tensors: this.#names.size, parameters, bytes, byType, groups };
  }

  #addToGroup({ name, type, shape, bytes }: Tensor, fail: (what: string) => Failure): void {
    const pattern = name.replace(numberInName, '*');
    const alike = this.#groups.get(pattern);
    const group = alike?.find((other) => other.type === type && sameShape(other.shape, shape));
    if (group !== undefined) {
      group.count += 1;
      group.bytes += bytes;
      return;
    }
    this.#groupCount += 1;
    if (this.#groupCount > limits.weightGroups || (alike?.length ?? 0) >= limits.alikeGroups) {
      throw fail('too many of its tensors differ in name or shape');
    }
    const fresh = { name: pattern, type, shape, count: 1, bytes };
    if (alike === undefined) this.#groups.set(pattern, [fresh]);
    else alike.push(fresh);
  }
}

function sameShape(a: readonly number[], b: readonly number[]): boolean {
  return a.length === b.length && a.every((size, index) => size === b[index]);
}
