// What an attack found. Each list must stay empty.
export class Findings {
  lost = [];
  doubled = [];
  left = [];
  wrong = [];
  /** Beside the promises: what was done, and what was left out and why. */
  notes = [];

  get all() {
    return [...this.lost, ...this.doubled, ...this.left, ...this.wrong];
  }
}
