/**
 * Hands out the N of `gpu:N`. A GPU keeps its number for as long as this object lives, also when
 * it vanishes and comes back, so that a history keyed by id never changes hands.
 */
export class GpuNumbers {
  readonly #numbers = new Map<string, number>();

  /** The number of the GPU known by `key`: its own, else the wished one if free, else the next. */
  numberOf(key: string, wished?: number): number {
    const own = this.#numbers.get(key);
    if (own !== undefined) return own;
    const taken = new Set(this.#numbers.values());
    let number = wished !== undefined && !taken.has(wished) ? wished : 0;
    while (taken.has(number)) number += 1;
    this.#numbers.set(key, number);
    return number;
  }
}
