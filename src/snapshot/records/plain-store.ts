import { limits } from '../limits.js';
import type { ValueStack } from '../pickle/value-stack.js';
import { kind, kindOf, payloadMask } from '../pickle/values.js';
import { refuseLimit } from '../refusals.js';

/** Items of a list, or keys and values of a dict in turn, as tags with their numbers. */
export interface PlainContainer {
  readonly tags: number[];
  readonly numbers: number[];
}

/** Lists and dicts that are none of the records: the settings, the outermost dict, additions. */
export class PlainStore {
  readonly containers: PlainContainer[] = [];
  #items = 0;

  add(): number {
    if (this.containers.length >= limits.plainContainers) {
      refuseLimit('lists and dicts of no known meaning', limits.plainContainers);
    }
    this.containers.push({ tags: [], numbers: [] });
    return this.containers.length - 1;
  }

  push(row: number, stack: ValueStack, from: number, to: number): void {
    this.#items += to - from;
    if (this.#items > limits.plainItems) {
      refuseLimit('values of no known meaning', limits.plainItems);
    }
    const container = this.at(row);
    for (let at = from; at < to; at += 1) {
      container.tags.push(stack.tags[at] ?? 0);
      container.numbers.push(stack.numbers[at] ?? 0);
    }
  }

  at(row: number): PlainContainer {
    return this.containers[row] ?? { tags: [], numbers: [] };
  }

  /** The tag of the value under a key (given by its string's number), or undefined. */
  find(row: number, key: number): number | undefined {
    const { tags } = this.at(row);
    // The last one counts, as in Python.
    for (let at = tags.length - 2; at >= 0; at -= 2) {
      const tag = tags[at] ?? 0;
      if (kindOf(tag) === kind.string && (tag & payloadMask) === key) return tags[at + 1];
    }
    return undefined;
  }
}
