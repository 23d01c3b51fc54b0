import type { Lives } from '../history/history.js';
import type { Frame, Names, Segment } from '../snapshot.js';

/** Bytes that one call stack holds. */
export interface Holder {
  /** Number of the stack in the snapshot's names. */
  readonly stack: number;
  readonly bytes: number;
  readonly count: number;
}

/** Bytes that a file or a module holds. */
export interface PlaceHolder {
  readonly name: string;
  readonly bytes: number;
  readonly count: number;
}

function largestFirst<One extends { readonly bytes: number }>(all: Iterable<One>): One[] {
  return [...all].toSorted((a, b) => b.bytes - a.bytes);
}

/** Which stacks hold the blocks that are in use now, the largest first. */
export function holdersNow(segments: readonly Segment[]): Holder[] {
  const byStack = new Map<number, { stack: number; bytes: number; count: number }>();
  for (const { blocks } of segments) {
    for (const { state, bytes, stack } of blocks) {
      if (state !== 'inactive') tally(byStack, stack, bytes);
    }
  }
  return largestFirst(byStack.values());
}

/** Which stacks held memory after the event `index`, the largest first. */
export function holdersAt(lives: Lives, index: number): Holder[] {
  const { born, freed, bytes, stack, length } = lives;
  const byStack = new Map<number, { stack: number; bytes: number; count: number }>();
  for (let life = 0; life < length; life += 1) {
    const end = freed[life] ?? -1;
    if ((born[life] ?? 0) > index || (end !== -1 && end <= index)) continue;
    tally(byStack, stack[life] ?? 0, bytes[life] ?? 0);
  }
  return largestFirst(byStack.values());
}

/** The same by the file of the user's own innermost frame, or of the innermost frame at all. */
export function byFile(holders: readonly Holder[], names: Names): PlaceHolder[] {
  return grouped(holders, (holder) => {
    const frames = names.stack(holder.stack);
    const frame = ownFrame(frames) ?? frames[0];
    return frame && shortFile(frame.file);
  });
}

/** The same by the module and function that allocated. */
export function byModule(holders: readonly Holder[], names: Names): PlaceHolder[] {
  return grouped(holders, (holder) => moduleOf(names.stack(holder.stack)));
}

/** Blocks without frames: from before the recording, or from a thread without Python. */
const noFrames = 'no frames recorded';

function grouped(
  holders: readonly Holder[],
  nameOf: (holder: Holder) => string | undefined,
): PlaceHolder[] {
  const places = new Map<string, { name: string; bytes: number; count: number }>();
  for (const holder of holders) {
    const name = nameOf(holder) ?? noFrames;
    const place = places.get(name) ?? { name, bytes: 0, count: 0 };
    place.bytes += holder.bytes;
    place.count += holder.count;
    places.set(name, place);
  }
  return largestFirst(places.values());
}

function tally(
  byStack: Map<number, { stack: number; bytes: number; count: number }>,
  stack: number,
  bytes: number,
): void {
  const holder = byStack.get(stack);
  if (holder) {
    holder.bytes += bytes;
    holder.count += 1;
  } else {
    byStack.set(stack, { stack, bytes, count: 1 });
  }
}

/** The bytes of one stack in both snapshots. */
export interface Difference {
  readonly frames: readonly Frame[];
  readonly bytes: number;
  readonly againstBytes: number;
  readonly count: number;
  readonly againstCount: number;
}

interface Side {
  readonly holders: readonly Holder[];
  readonly names: Names;
}

/**
 * Returns the stacks that hold more or less than in another snapshot, the largest change first.
 * Stacks are the same if all their frames are; line numbers count.
 */
export function compareHolders(now: Side, against: Side): Difference[] {
  const differences = new Map<string, { -readonly [K in keyof Difference]: Difference[K] }>();
  const entryOf = ({ names }: Side, stack: number) => {
    const frames = names.stack(stack);
    const key = JSON.stringify(frames);
    const known = differences.get(key);
    if (known) return known;
    const made = { frames, bytes: 0, againstBytes: 0, count: 0, againstCount: 0 };
    differences.set(key, made);
    return made;
  };
  for (const { stack, bytes, count } of now.holders) {
    const entry = entryOf(now, stack);
    entry.bytes += bytes;
    entry.count += count;
  }
  for (const { stack, bytes, count } of against.holders) {
    const entry = entryOf(against, stack);
    entry.againstBytes += bytes;
    entry.againstCount += count;
  }
  const change = (one: Difference) => Math.abs(one.bytes - one.againstBytes);
  return [...differences.values()]
    .filter((one) => change(one) > 0 || one.count !== one.againstCount)
    .toSorted((a, b) => change(b) - change(a));
}

/** Folders that hold what others wrote: installed packages, Python's own library, C++ sources. */
const library =
  /(?:site|dist)-packages\/|\/lib(?:64)?\/python\d|^<|\.(?:cpp|cc|cxx|cu|h|hpp|so)(?:\.|$)|^\?\?$|^$/;

/** The frame stands in the program of the user, not in a library. */
export function isOwn(frame: Frame): boolean {
  return !library.test(slashes(frame.file));
}

/**
 * A file for people: inside of packages, the path from the package on; else its last two parts.
 *
 * @example
 * shortFile('/venv/lib/python3.12/site-packages/torch/nn/functional.py'); // 'torch/nn/functional.py'
 */
function shortFile(file: string): string {
  const path = slashes(file);
  const installed = /(?:site|dist)-packages\/(.+)$/.exec(path)?.[1];
  const own = /\/lib(?:64)?\/python\d[\d.]*\/(.+)$/.exec(path)?.[1];
  return installed ?? own ?? path.split('/').slice(-2).join('/');
}

/** Returns the place of a frame: `train.py:21`. */
export function placeText({ file, line }: Frame): string {
  return `${shortFile(file)}:${line}`;
}

/** A frame on one line: `step (train.py:21)`. */
export function frameText(frame: Frame): string {
  return `${frame.name} (${placeText(frame)})`;
}

/** Code that only passes a call on; never the answer to "who holds it?". */
const passing =
  /\/(?:torch\/nn\/modules\/module|torch\/_compile|torch\/_dynamo\/eval_frame)\.py$|\/(?:contextlib|functools)\.py$/;
/** Models that stand around another model and do no work of their own. */
const wrapping = /\/(?:torch\/nn\/parallel|torch\/distributed|torch\/_dynamo|accelerate)\//;

/** The frame belongs to what hands a call on to a model: PyTorch's machinery, or a wrapper. */
export function isPassing({ file }: Frame): boolean {
  const path = slashes(file);
  return passing.test(path) || wrapping.test(path);
}

/**
 * The part of a program that allocated: the innermost frame that stands in no machinery of PyTorch,
 * with its file. Layers of a model are told apart where their files are.
 *
 * @example
 * moduleOf(frames); // 'transformers.models.gpt2.modeling_gpt2.forward'
 */
function moduleOf(frames: readonly Frame[]): string | undefined {
  const frame = moduleFrame(frames);
  if (frame === undefined) return undefined;
  const path = shortFile(frame.file).replace(/\.py$/, '').replaceAll('/', '.');
  return `${path}.${frame.name}`;
}

/** The innermost frame that stands in no machinery of PyTorch. */
export function moduleFrame(frames: readonly Frame[]): Frame | undefined {
  return (
    frames.find(
      ({ file }) => !/^torch\/(?!optim\/)/.test(shortFile(file)) && !passing.test(slashes(file)),
    ) ?? frames.find(({ file }) => !passing.test(slashes(file)))
  );
}

/** The place in the user's own program that a call came from: the innermost own frame. */
export function ownFrame(frames: readonly Frame[]): Frame | undefined {
  return frames.find(isOwn);
}

function slashes(file: string): string {
  return file.replaceAll('\\', '/');
}
