import { before, type Lives } from '../history/lives.js';
import type { Frame, Names } from '../snapshot.js';
import { isPassing } from './frame-place.js';

/**
 * Whether all that was allocated from event `first` to event `last` came from one forward pass of a
 * model, or from the loading of one. What repeats there are layers or weights, not steps: a forward
 * pass keeps what its backward will need, and a loaded model stays.
 *
 * One call shows in the frames that all stacks share: if they end inside of a module's forward, the
 * loop runs there. A loop of the program that calls the model shares no line of the model's.
 */
export function isWithinOneCall(names: Names, lives: Lives, first: number, last: number): boolean {
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
