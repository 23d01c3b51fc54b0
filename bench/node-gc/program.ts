// A TypeScript program with many objects: annotations that stay, batches of small objects that wait in a
// queue as those of a loader do, a record of each step. Prints the pauses of Node's collector.
import { watchGcPauses } from '../../src/watch/gc-pauses.js';

interface Annotation {
  readonly id: number;
  readonly box: readonly number[];
  readonly tags: Readonly<Record<string, number>>;
}

interface Example {
  readonly id: number;
  readonly box: number[];
  readonly size: { readonly width: number; readonly height: number };
}

interface StepRecord {
  readonly step: number;
  readonly loss: number;
}

const [samples, steps, queued] = process.argv.slice(2).map(Number);

function dataset(count: number): readonly Annotation[] {
  return Array.from({ length: count }, (_, id) => ({
    id,
    box: [id, id + 1, id + 2, id + 3],
    tags: { a: id },
  }));
}

function train(data: readonly Annotation[], count: number): readonly StepRecord[] {
  const history: StepRecord[] = [];
  const queue: Example[][] = [];
  for (let step = 0; step < count; step++) {
    const batch = Array.from({ length: 256 }, (_, at): Example => {
      const { id = 0, box = [] } = data[(step * 997 + at) % data.length] ?? {};
      return { id, box: [...box], size: { width: 1, height: 2 } };
    });
    queue.push(batch);
    if (queue.length <= (queued ?? 0)) continue;
    const ready = queue.shift() ?? [];
    history.push({ step, loss: ready.reduce((sum, { box }) => sum + (box[0] ?? 0), 0) });
  }
  return history;
}

const data = dataset(samples ?? 0);
const pauses = watchGcPauses();
const begin = process.cpuUsage();
const history = train(data, steps ?? 0);
const { user, system } = process.cpuUsage(begin);
// Node hands out its records of pauses between turns.
await new Promise((resolve) => setTimeout(resolve));
const { collections, totalSeconds, longestSeconds } = pauses.report();
pauses[Symbol.dispose]();
console.log(
  JSON.stringify({
    steps: history.length,
    collections,
    total: totalSeconds * 1000,
    longest: longestSeconds * 1000,
    processor: (user + system) / 1000,
    peakBytes: process.resourceUsage().maxRSS * 1024,
  }),
);
