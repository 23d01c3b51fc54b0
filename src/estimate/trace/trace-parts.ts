import { roundUp } from '../allocator/sizes.js';
import type { ModuleBytes, Part } from '../types.js';
import { eventKind } from './event-stream.js';
import { type Trace, type TraceCategory, traceCategories } from './trace-file.js';

const partOf: Readonly<Record<TraceCategory, Part>> = {
  w: 'weights',
  g: 'gradients',
  o: 'optimizer',
  x: 'activations',
  b: 'activations',
  t: 'temporary',
  k: 'workspace',
  p: 'gathered',
  r: 'reduce',
  u: 'buckets',
};

/** The allocator hands out multiples of this. */
const smallestBlock = 512;

/** The parts whose modules people ask about: what is kept, and who is at work. */
const byModule: ReadonlySet<Part> = new Set(['activations', 'temporary']);

export interface LiveParts {
  readonly bytes: ReadonlyMap<Part, number>;
  /** By module, the largest first, with the numbers in their names as `*`. */
  readonly modules: ReadonlyMap<Part, readonly ModuleBytes[]>;
}

/**
 * What was live right after an event of a trace, by what it is for.
 *
 * @example
 * liveParts(trace, replay(trace.stream).peakAllocatedAt).bytes.get('weights'); // 248942592
 */
export function liveParts(trace: Trace, at: number): LiveParts {
  const { kind, slot, bytes } = trace.stream;
  const held = new Float64Array(trace.stream.slots);
  for (let event = 0; event <= at; event += 1) {
    const place = slot[event] ?? 0;
    if (kind[event] === eventKind.alloc) held[place] = roundUp(bytes[event] ?? 0, smallestBlock);
    else if (kind[event] === eventKind.free) held[place] = 0;
  }
  const parts = new Map<Part, number>();
  /** By part, and by the name of the module as the trace gives it. */
  const named = new Map<Part, Map<string, number>>([...byModule].map((part) => [part, new Map()]));
  for (const [place, size] of held.entries()) {
    if (size === 0) continue;
    const part = partOf[traceCategories[trace.category[place] ?? 0] ?? 'x'];
    add(parts, part, size);
    const modules = named.get(part);
    if (modules) add(modules, trace.strings[trace.module[place] ?? 0] ?? '', size);
  }
  return {
    bytes: parts,
    modules: new Map([...named].map(([part, modules]) => [part, alike(modules)])),
  };
}

/** Modules that differ in their numbers only, as the layers of a stack do, become one. */
function alike(modules: ReadonlyMap<string, number>): readonly ModuleBytes[] {
  const folded = new Map<string, { count: number; bytes: number }>();
  for (const [name, bytes] of modules) {
    const module = name.replaceAll(/(?<=^|\.)\d+(?=\.|$)/g, '*');
    const before = folded.get(module) ?? { count: 0, bytes: 0 };
    folded.set(module, { count: before.count + 1, bytes: before.bytes + bytes });
  }
  return [...folded]
    .map(([module, { count, bytes }]) => ({ module, count, bytes }))
    .toSorted((a, b) => b.bytes - a.bytes || (a.module < b.module ? -1 : 1));
}

function add<Key>(sums: Map<Key, number>, key: Key, bytes: number): void {
  sums.set(key, (sums.get(key) ?? 0) + bytes);
}
