// What an attack found. Each list must stay empty.
export class Findings {
  lost = [];
  doubled = [];
  left = [];
  wrong = [];
  /** Beside the promises: what was done, and what was left out and why. */
  notes = [];

  /** What one case of many found. */
  add({ lost, doubled, left, wrong }, where) {
    const named = (texts) => texts.map((text) => `${where}: ${text}`);
    this.lost.push(...named(lost));
    this.doubled.push(...named(doubled));
    this.left.push(...named(left));
    this.wrong.push(...named(wrong));
  }

  get all() {
    return [...this.lost, ...this.doubled, ...this.left, ...this.wrong];
  }
}
