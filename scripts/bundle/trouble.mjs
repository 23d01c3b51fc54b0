/** An error a person can act on: the code, the fact, the next step, as everywhere in Plimsoll. */
export class Trouble extends Error {
  /** Exit code 3: something is missing on this machine; 2: it was called in a wrong way. */
  constructor(code, fact, next, exitCode = 3) {
    super(`${code}: ${fact} ${next}`);
    this.exitCode = exitCode;
  }
}

export function fail(...parts) {
  throw new Trouble(...parts);
}
