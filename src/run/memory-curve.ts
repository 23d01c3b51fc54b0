import type { MemoryPoint } from './types.js';

/** As many as a chart shows; twice as many are kept before neighbours are joined. */
const maxPoints = 120;

/** Memory of an attempt over time, in few points however long it takes: of two neighbours the higher stays. */
export class MemoryCurve {
  #points: MemoryPoint[] = [];
  #least = 0;

  add(atSeconds: number, bytes: number): void {
    const last = this.#points.at(-1);
    if (last !== undefined && atSeconds - last.atSeconds < this.#least) {
      if (bytes > last.bytes) this.#points[this.#points.length - 1] = { ...last, bytes };
      return;
    }
    this.#points.push({ atSeconds: Math.round(atSeconds * 100) / 100, bytes });
    if (this.#points.length < 2 * maxPoints) return;
    this.#points = joined(this.#points);
    const [first] = this.#points;
    this.#least = (atSeconds - (first?.atSeconds ?? 0)) / maxPoints;
  }

  get points(): readonly MemoryPoint[] {
    return this.#points.length > maxPoints ? joined(this.#points) : this.#points;
  }
}

function joined(points: readonly MemoryPoint[]): MemoryPoint[] {
  const halved: MemoryPoint[] = [];
  for (let at = 0; at < points.length; at += 2) {
    const [one, other] = [points[at], points[at + 1]];
    if (one === undefined) continue;
    halved.push({ ...one, bytes: Math.max(one.bytes, other?.bytes ?? 0) });
  }
  return halved;
}
