import { before, type Lives, never } from '../history/lives.js';
import { type DeviceSnapshot, type Events, type Names, rowOf, type Snapshot } from '../snapshot.js';
import { isWithinOneCall } from './one-call.js';

/** Where the steps of a job begin: numbers of events, rising. Step 0 is all before the first. */
export interface Steps {
  readonly starts: readonly number[];
  /** How they were found. */
  readonly basis: 'optimizer steps' | 'a repeating allocation' | 'none';
}

/** Fewer repetitions show no pattern. */
const fewestSteps = 3;
/** A stack that stands for a step comes at least this evenly (deviation over mean of the gaps). */
const maxUneven = 0.6;

/**
 * Finds the steps of a training or serving loop: by what PyTorch notes when an optimizer steps, or
 * else by the stack whose allocations come and go most evenly over most of the recording.
 */
export function findSteps(snapshot: Snapshot, device: DeviceSnapshot, lives: Lives): Steps {
  const noted = snapshot.annotations
    .filter(
      ({ name, stage, device: on }) =>
        stage === 'START' && name.startsWith('Optimizer.step') && on === device.device,
    )
    .map(({ name, timeUs }) => ({ name, at: eventAfter(device.events, timeUs) }));
  const [first] = noted;
  const own = noted.filter(({ name }) => name === first?.name).map(({ at }) => at);
  if (own.length >= fewestSteps) return { starts: own, basis: 'optimizer steps' };
  const repeated = maxEven(device.events, lives, snapshot.names);
  if (repeated) return { starts: repeated, basis: 'a repeating allocation' };
  return { starts: own, basis: own.length > 0 ? 'optimizer steps' : 'none' };
}

/** The step that an event belongs to. */
export function stepOf(starts: readonly number[], index: number): number {
  let low = 0;
  let high = starts.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((starts[middle] ?? 0) <= index) low = middle + 1;
    else high = middle;
  }
  return low;
}

function eventAfter(events: Events, timeUs: number): number {
  let low = 0;
  let high = events.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((events.timeUs[rowOf(events, middle)] ?? 0) < timeUs) low = middle + 1;
    else high = middle;
  }
  return low;
}

interface Beat {
  count: number;
  kept: number;
  first: number;
  last: number;
  squares: number;
}

/** The births of the stack that comes most evenly, of those that mark steps of the program itself. */
function maxEven(events: Events, lives: Lives, names: Names): number[] | undefined {
  const even = evenBeats(events, lives).toSorted((a, b) => a.score - b.score);
  // What lies within a stretch that one call made was made by that call, too.
  let one: Beat | undefined;
  for (const { stack, beat } of even) {
    const known = one !== undefined && beat.first >= one.first && beat.last <= one.last;
    if (known) continue;
    if (isWithinOneCall(names, lives, beat.first, beat.last)) one = beat;
    else return birthsOf(stack, lives);
  }
  return undefined;
}

interface EvenBeat {
  readonly stack: number;
  readonly beat: Beat;
  /** The lower, the more evenly it comes. */
  readonly score: number;
}

function evenBeats(events: Events, lives: Lives): EvenBeat[] {
  const even: EvenBeat[] = [];
  for (const [stack, beat] of beatsByStack(lives)) {
    const { count, kept, first, last } = beat;
    const gaps = count - 1;
    // What marks a step comes and goes; what is kept may be the very leak.
    if (stack === 0 || gaps < fewestSteps || kept > count * 0.1 + 1) continue;
    if (last - first < events.length / 2) continue;
    const mean = (last - first) / gaps;
    const uneven = Math.sqrt(Math.max(0, beat.squares / gaps - mean ** 2)) / mean;
    if (uneven <= maxUneven) even.push({ stack, beat, score: uneven + Math.log10(count) / 100 });
  }
  return even;
}

function beatsByStack(lives: Lives): Map<number, Beat> {
  const beats = new Map<number, Beat>();
  for (let life = 0; life < lives.length; life += 1) {
    const born = lives.born[life] ?? before;
    if (born === before) continue;
    const stack = lives.stack[life] ?? 0;
    const beat = beats.get(stack) ?? { count: 0, kept: 0, first: born, last: born, squares: 0 };
    beat.count += 1;
    if (lives.freed[life] === never) beat.kept += 1;
    beat.squares += (born - beat.last) ** 2;
    beat.last = born;
    beats.set(stack, beat);
  }
  return beats;
}

function birthsOf(stack: number, lives: Lives): number[] {
  const births: number[] = [];
  for (let life = 0; life < lives.length; life += 1) {
    const born = lives.born[life] ?? before;
    if (lives.stack[life] === stack && born !== before) births.push(born);
  }
  return births;
}
