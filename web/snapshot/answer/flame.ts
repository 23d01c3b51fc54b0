import type { RecordingHeader } from '../../../src/report/recording-header.js';
import { type Recording, unitBytes } from '../data/recording.js';

/** Bytes of one stack. */
export type Holding = readonly [stack: number, bytes: number];

/** A call and what was allocated below it. */
export interface FlameNode {
  /** Number of the frame in the page's list; -1: all of it. */
  readonly frame: number;
  readonly bytes: number;
  readonly children: readonly FlameNode[];
}

/** A call as it is drawn: shares of the whole width. */
export interface FlameBar {
  readonly label: string;
  readonly place: string;
  readonly own: boolean;
  readonly bytes: number;
  readonly depth: number;
  readonly left: number;
  readonly width: number;
  /** The way to it from the root, by numbers of children. */
  readonly path: readonly number[];
}

interface Growing {
  readonly frame: number;
  bytes: number;
  readonly children: Map<number, Growing>;
}

/** Narrower than a pixel of most screens. */
const leastShare = 1 / 1000;
/** Python itself stops at 1,000 calls; a drawing that deep is unreadable. */
const deepest = 100;

/** Who holds memory after a tick. */
export function holdingsAt(recording: Recording, tick: number): Holding[] {
  const { count, from, to, units, stack, header } = recording;
  const held = new Float64Array(header.stacks.length);
  for (let life = 0; life < count && (from[life] ?? 0) <= tick; life += 1) {
    const own = stack[life] ?? 0;
    if ((to[life] ?? 0) > tick) held[own] = (held[own] ?? 0) + (units[life] ?? 0) * unitBytes;
  }
  return [...held.entries()].filter(([, bytes]) => bytes > 0);
}

/** Bytes by call, from the outermost frame inwards. Folded: of frames of libraries the innermost. */
export function flameTree(
  holdings: readonly Holding[],
  { stacks, frames }: Pick<RecordingHeader, 'stacks' | 'frames'>,
  folded: boolean,
): FlameNode {
  const isOwn = (frame: number) => frames[frame]?.[2] === 1;
  const root: Growing = { frame: -1, bytes: 0, children: new Map() };
  for (const [stack, bytes] of holdings) {
    root.bytes += bytes;
    let node = root;
    const all = (stacks[stack] ?? []).toReversed();
    const kept = folded
      ? all.filter((frame, at) => isOwn(frame) || at === all.length - 1 || isOwn(all[at + 1] ?? -1))
      : all;
    for (const frame of kept.slice(0, deepest)) {
      const child = node.children.get(frame) ?? { frame, bytes: 0, children: new Map() };
      node.children.set(frame, child);
      child.bytes += bytes;
      node = child;
    }
  }
  return pruned(root, root.bytes * leastShare);
}

function pruned(node: Growing, least: number): FlameNode {
  const children = [...node.children.values()]
    .filter(({ bytes }) => bytes >= least)
    .toSorted((a, b) => b.bytes - a.bytes)
    .map((child) => pruned(child, least));
  return { frame: node.frame, bytes: node.bytes, children };
}

/** The tree narrowed down to one call, with those above it over the whole width. */
export function flameBars(
  root: FlameNode,
  path: readonly number[],
  frames: RecordingHeader['frames'],
): FlameBar[] {
  const bars: FlameBar[] = [];
  const add = (node: FlameNode, at: Pick<FlameBar, 'depth' | 'left' | 'width' | 'path'>) => {
    const [label, place, own] = frames[node.frame] ?? ['all', '', 0];
    bars.push({ ...at, label, place, own: own === 1, bytes: node.bytes });
  };
  const walk = (node: FlameNode, depth: number, left: number, width: number, way: number[]) => {
    add(node, { depth, left, width, path: way });
    let at = left;
    node.children.forEach((child, index) => {
      const share = width * (child.bytes / node.bytes);
      if (share >= leastShare) walk(child, depth + 1, at, share, [...way, index]);
      at += share;
    });
  };
  let node = root;
  path.forEach((index, depth) => {
    add(node, { depth, left: 0, width: 1, path: path.slice(0, depth) });
    node = node.children[index] ?? node;
  });
  walk(node, path.length, 0, 1, [...path]);
  return bars;
}
