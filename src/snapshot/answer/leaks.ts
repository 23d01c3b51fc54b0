import { groupedBy } from '../../units/grouped-by.js';
import { before, type History, type Lives, never } from '../history/history.js';
import {
  type DeviceSnapshot,
  type Events,
  type Frame,
  type Names,
  rowOf,
  type Snapshot,
} from '../snapshot.js';
import { isOwn, isPassing } from './holders.js';

/** Memory that grows step by step and is never freed. */
export interface Leak {
  readonly stack: number;
  readonly bytes: number;
  readonly count: number;
  /** Steps in which it grew. */
  readonly steps: number;
  readonly bytesPerStep: number;
  readonly bytesPerSecond: number | 'unknown';
  /**
   * Other memory made on the way to it that lives as long: usually tensors that autograd keeps for
   * a backward pass that never comes.
   */
  readonly heldWith: { readonly bytes: number; readonly count: number; readonly stacks: number };
}

export interface Leaks {
  readonly leaks: readonly Leak[];
  /** Growth too small to matter beside the leaks above. */
  readonly minor: { readonly bytes: number; readonly count: number; readonly stacks: number };
  readonly steps: Steps;
}

/** Growth below this over the whole recording is not worth an alarm: counters, kept losses. */
const smallestLeak = 1024 * 1024;
/** A leak that is less than this share of all that leaks is counted with the minor ones. */
const smallestShare = 0.01;

/**
 * Leaks by the stacks that made them. Of what one line of the program keeps, what came out last is
 * named, and what was made on the way is counted with it: the one is the tensor in the list, the
 * other hangs on it.
 */
export function findLeaks(snapshot: Snapshot, device: DeviceSnapshot, { lives }: History): Leaks {
  const steps = findSteps(snapshot, device, lives);
  const nothing = { bytes: 0, count: 0, stacks: 0 };
  if (steps.starts.length < 3) return { leaks: [], minor: nothing, steps };
  const lastStep = steps.starts.length;
  const growing = [...growthByStack(lives, steps.starts).values()].filter((growth) =>
    growsOn(growth, lastStep),
  );
  const total = growing.reduce((sum, { bytes }) => sum + bytes, 0);
  const found = groupedBy(growing, ({ stack }) => siteOf(stack, snapshot.names));
  const leaks: Leak[] = [];
  const minor = { ...nothing };
  for (const members of found.values()) {
    const result = resultOf(members, lives, steps.starts);
    const others = members.filter((one) => one !== result && one.stack !== result.stack);
    const heldWith = {
      bytes: others.reduce((sum, { bytes }) => sum + bytes, 0),
      count: others.reduce((sum, { count }) => sum + count, 0),
      stacks: others.length,
    };
    const bytes = result.bytes + heldWith.bytes;
    if (bytes < smallestLeak || bytes < total * smallestShare) {
      minor.bytes += bytes;
      minor.count += result.count + heldWith.count;
      minor.stacks += members.length;
    } else {
      leaks.push({ ...leakOf(result, device), heldWith });
    }
  }
  const sorted = leaks.toSorted(
    (a, b) => b.bytes + b.heldWith.bytes - (a.bytes + a.heldWith.bytes),
  );
  return { leaks: sorted, minor, steps };
}

/**
 * The line of the user's own program that an allocation came from, with all that led there. What
 * that line allocates itself stands apart from what a library does on its behalf.
 */
function siteOf(stack: number, names: Names): string {
  const { stacks } = names;
  const frames = [...stacks.frames.subarray(stacks.startOf(stack), stacks.endOf(stack))];
  const own = frames.findIndex((frame) => isOwn(names.frame(frame)));
  if (own <= 0) return `stack ${stack}`;
  return frames.slice(own).join(',');
}

/** Of the stacks of one site, the one that is last in most steps. */
function resultOf(members: readonly Growth[], lives: Lives, starts: readonly number[]): Growth {
  const [only] = members;
  if (only === undefined) throw new RangeError('A site has at least one stack.');
  if (members.length === 1) return only;
  const votes = new Map(members.map((member) => [member.stack, 0]));
  let step = -1;
  let last = only.stack;
  const { born, freed, stack, length } = lives;
  for (let life = 0; life < length; life += 1) {
    const index = born[life] ?? before;
    const from = stack[life] ?? 0;
    if (index === before || freed[life] !== never || !votes.has(from)) continue;
    const own = stepOf(starts, index);
    if (own !== step && step !== -1) votes.set(last, (votes.get(last) ?? 0) + 1);
    step = own;
    last = from;
  }
  const most = [...votes].reduce((best, vote) => (vote[1] > best[1] ? vote : best));
  return members.find((member) => member.stack === most[0]) ?? only;
}

function leakOf(growth: Growth, { events }: DeviceSnapshot): Omit<Leak, 'heldWith'> {
  const timeAt = (index: number) => events.timeUs[rowOf(events, index)] ?? 0;
  const seconds = (timeAt(growth.lastIndex) - timeAt(growth.firstIndex)) / 1e6;
  return {
    stack: growth.stack,
    bytes: growth.bytes,
    count: growth.count,
    steps: growth.steps,
    bytesPerStep: Math.round(growth.bytes / growth.steps),
    // The first step begins the count, so it is no part of what came in the time after it.
    bytesPerSecond:
      seconds > 0 ? Math.round((growth.bytes - growth.firstBytes) / seconds) : 'unknown',
  };
}

/** The starts of a job's steps: numbers of events, rising. Step 0 is all before the first. */
interface Steps {
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
function findSteps(snapshot: Snapshot, device: DeviceSnapshot, lives: Lives): Steps {
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
function stepOf(starts: readonly number[], index: number): number {
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

/**
 * Whether all that was allocated from event `first` to event `last` came from one forward pass of a
 * model, or from the loading of one. What repeats there are layers or weights, not steps: a forward
 * pass keeps what its backward will need, and a loaded model stays.
 *
 * One call shows in the frames that all stacks share: if they end inside of a module's forward, the
 * loop runs there. A loop of the program that calls the model shares no line of the model's.
 */
function isWithinOneCall(names: Names, lives: Lives, first: number, last: number): boolean {
  const shared = sharedFrames(names, lives, first, last);
  const inner = shared.findIndex((frame) => !isPassing(frame));
  return inner !== -1 && shared.slice(inner).some((frame) => isModelCall(frame) || loads(frame));
}

/** The outer frames that every stack between two events has, the innermost first. */
function sharedFrames(names: Names, lives: Lives, first: number, last: number): readonly Frame[] {
  const { frames } = names.stacks;
  const seen = new Set<number>();
  let shared: Int32Array | undefined;
  for (let life = 0; life < lives.length; life += 1) {
    const born = lives.born[life] ?? before;
    const stack = lives.stack[life] ?? 0;
    if (born === before || born < first || born > last || seen.has(stack)) continue;
    seen.add(stack);
    const own = frames.subarray(names.stacks.startOf(stack), names.stacks.endOf(stack));
    shared = shared === undefined ? own : shared.subarray(shared.length - alike(shared, own));
    // What has no frames (a backward pass) is no part of a forward pass either.
    if (shared.length === 0) return [];
  }
  return [...(shared ?? [])].map((frame) => names.frame(frame));
}

/** How many frames two stacks share, counted from their outer ends. */
function alike(a: Int32Array, b: Int32Array): number {
  const most = Math.min(a.length, b.length);
  let count = 0;
  while (count < most && a.at(-1 - count) === b.at(-1 - count)) count += 1;
  return count;
}

/** PyTorch's way into the forward of a module. */
function isModelCall({ file, name }: Frame): boolean {
  return /\btorch[\\/]nn[\\/]modules[\\/]module\.py$/.test(file) && name.endsWith('call_impl');
}

/** Names under which libraries load a model or move it to a device. */
const loading =
  /^(?:from_pretrained|load_state_dict|_load_from_state_dict|load_checkpoint\w*|_apply)$/;

function loads({ name }: Frame): boolean {
  return loading.test(name);
}

/** Bytes that one stack allocated and did not free, over the steps. */
interface Growth {
  readonly stack: number;
  count: number;
  bytes: number;
  /** Steps in which something was kept. */
  steps: number;
  firstStep: number;
  lastStep: number;
  firstIndex: number;
  lastIndex: number;
  firstBytes: number;
  /** The most steps that something lived which was freed in the end. */
  longestFreedSteps: number;
}

/** Looks at every allocation of the recording, stack by stack. */
function growthByStack(lives: Lives, starts: readonly number[]): Map<number, Growth> {
  const growths = new Map<number, Growth>();
  const { born, freed, bytes, stack, length } = lives;
  for (let life = 0; life < length; life += 1) {
    const from = born[life] ?? before;
    if (from === before) continue;
    const key = stack[life] ?? 0;
    const growth = growths.get(key) ?? noGrowth(key);
    growths.set(key, growth);
    const end = freed[life] ?? never;
    const step = stepOf(starts, from);
    if (end !== never) {
      growth.longestFreedSteps = Math.max(growth.longestFreedSteps, stepOf(starts, end) - step);
      continue;
    }
    keep(growth, from, step, bytes[life] ?? 0);
  }
  return growths;
}

function noGrowth(stack: number): Growth {
  return {
    stack,
    count: 0,
    bytes: 0,
    steps: 0,
    firstStep: -1,
    lastStep: -1,
    firstIndex: -1,
    lastIndex: -1,
    firstBytes: 0,
    longestFreedSteps: 0,
  };
}

function keep(growth: Growth, index: number, step: number, bytes: number): void {
  if (growth.count === 0) {
    growth.firstStep = step;
    growth.firstIndex = index;
  }
  if (step === growth.firstStep) growth.firstBytes += bytes;
  if (step !== growth.lastStep) growth.steps += 1;
  growth.count += 1;
  growth.bytes += bytes;
  growth.lastStep = step;
  growth.lastIndex = index;
}

/**
 * Grows step by step, to the end, and nothing of it is freed later than the rest: a leak. What grows
 * once (weights, the state of an optimizer, a buffer) has one step; a cache that turns over frees
 * what is as old as what it keeps.
 */
function growsOn(growth: Growth, lastStep: number): boolean {
  const { steps, firstStep } = growth;
  if (steps < fewestSteps) return false;
  const pace = (growth.lastStep - firstStep) / (steps - 1);
  const stillGrows = growth.lastStep >= lastStep - Math.max(1, Math.ceil(pace));
  const oldest = lastStep - firstStep;
  const turnsOver = growth.longestFreedSteps >= 2 && growth.longestFreedSteps * 2 >= oldest;
  return stillGrows && !turnsOver;
}
