/**
 * Blocks that another stream works on (`record_stream`). Once freed they count as free to the program,
 * and stay out of use until that stream's work is done, in the order in which they were freed.
 */
export class AwaitedFrees {
  readonly #used = new Set<number>();
  readonly #waiting: number[] = [];
  /** How many were ever freed and are done: places count from the first free on. */
  #done = 0;
  #from = 0;

  /** `other`: one whose state it begins with. */
  constructor(other?: AwaitedFrees) {
    if (other === undefined) return;
    for (const handle of other.#used) this.#used.add(handle);
    this.#waiting.push(...other.#waiting);
    this.#done = other.#done;
    this.#from = other.#from;
  }

  use(handle: number): void {
    this.#used.add(handle);
  }

  /** Whether a block that is freed now has to wait. */
  takes(handle: number): boolean {
    if (this.#used.size === 0 || !this.#used.delete(handle)) return false;
    this.#waiting.push(handle);
    return true;
  }

  /** Gives out, in order, what is done once the first `count` of all such frees are. */
  *finish(count: number): Generator<number> {
    while (this.#done < count && this.#from < this.#waiting.length) {
      const handle = this.#waiting[this.#from] ?? 0;
      this.#from += 1;
      this.#done += 1;
      yield handle;
    }
    if (this.#from === this.#waiting.length) {
      this.#waiting.length = 0;
      this.#from = 0;
    }
  }
}
