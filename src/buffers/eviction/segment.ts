/** Keys with their sizes, the one that was used longest ago first. */
export class Segment {
  readonly #sizes = new Map<string, number>();
  bytes = 0;

  get count(): number {
    return this.#sizes.size;
  }

  get oldest(): string | undefined {
    return this.#sizes.keys().next().value;
  }

  size(key: string): number | undefined {
    return this.#sizes.get(key);
  }

  add(key: string, bytes: number): void {
    this.#sizes.set(key, bytes);
    this.bytes += bytes;
  }

  remove(key: string): number | undefined {
    const bytes = this.#sizes.get(key);
    if (bytes === undefined) return undefined;
    this.#sizes.delete(key);
    this.bytes -= bytes;
    return bytes;
  }
}
