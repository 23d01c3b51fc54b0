/** Wrong tokens count for so long. */
const windowSeconds = 60;
/** Addresses that are remembered; beyond, the one that failed longest ago is forgotten. */
const mostAddresses = 10_000;

/** Counts wrong tokens by address, so that nobody tries them by the thousand. */
export class WrongTokens {
  readonly #most: number;
  readonly #seconds: () => number;
  readonly #byAddress = new Map<string, { count: number; since: number }>();

  constructor(options: { most: number; seconds: () => number }) {
    this.#most = options.most;
    this.#seconds = options.seconds;
  }

  /** While this holds, not even the right one is looked at: else waiting would cost nothing. */
  mustWait(address: string): boolean {
    const found = this.#current(address);
    return found !== undefined && found.count >= this.#most;
  }

  add(address: string): void {
    const found = this.#current(address) ?? { count: 0, since: this.#seconds() };
    this.#byAddress.delete(address);
    this.#byAddress.set(address, { ...found, count: found.count + 1 });
    const [oldest] = this.#byAddress.keys();
    if (this.#byAddress.size > mostAddresses && oldest !== undefined) {
      this.#byAddress.delete(oldest);
    }
  }

  #current(address: string): { count: number; since: number } | undefined {
    const found = this.#byAddress.get(address);
    return found && this.#seconds() - found.since < windowSeconds ? found : undefined;
  }
}
