import { groupedBy } from '../../units/grouped-by.js';
import type { History } from '../history/history.js';
import { before, type Lives, never } from '../history/lives.js';
import { type DeviceSnapshot, type Names, rowOf, type Snapshot } from '../snapshot.js';
import { isOwn } from './frame-place.js';
import { type Growth, growsOn, growthByStack } from './growth.js';
import { findSteps, type Steps, stepOf } from './steps.js';

/** What grows step by step and is never freed. */
export interface Leak {
  readonly stack: number;
  readonly bytes: number;
  readonly count: number;
  /** Steps in which it grew. */
  readonly steps: number;
  readonly bytesPerStep: number;
  readonly bytesPerSecond: number | 'unknown';
  /**
   * What was made on the way to it and stays as long as it does: as a rule what autograd keeps for a
   * backward pass that never comes.
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
