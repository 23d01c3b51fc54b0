import type { Holder } from '../snapshot/answer/holders.js';
import type { StackBook } from './snapshot-stack-book.js';

/** A call and what was allocated below it. */
export interface FlameNode {
  /** Number of the frame in the page's list; -1: all of it. */
  readonly frame: number;
  readonly bytes: number;
  readonly children: readonly FlameNode[];
}

interface Growing {
  readonly frame: number;
  bytes: number;
  readonly children: Map<number, Growing>;
}

/** Narrower than a pixel of any screen. */
const leastShare = 1 / 2000;
/** Python itself stops at 1,000 calls; a drawing that deep is unreadable. */
const deepest = 100;

/** Bytes by call, from the outermost frame inwards. */
export function flameTree(holders: readonly Holder[], book: StackBook): FlameNode {
  const root: Growing = { frame: -1, bytes: 0, children: new Map() };
  for (const { stack, bytes } of holders) {
    root.bytes += bytes;
    let node = root;
    const frames = book.stacks[book.numberOf(stack)] ?? [];
    for (const frame of frames.toReversed().slice(0, deepest)) {
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
