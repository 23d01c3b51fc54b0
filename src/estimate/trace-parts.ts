import { roundUp } from './allocator/sizes.js';
import type { Part } from './contract.js';
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
};

/** The allocator hands out multiples of this. */
const smallestBlock = 512;

export interface LiveParts {
  readonly bytes: ReadonlyMap<Part, number>;
  /** Activations by module, the largest first, with the numbers in their names as `*`. */
  readonly activations: readonly { readonly module: string; readonly bytes: number }[];
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
  const modules = new Map<string, number>();
  for (const [place, size] of held.entries()) {
    if (size === 0) continue;
    const part = partOf[traceCategories[trace.category[place] ?? 0] ?? 'x'];
    add(parts, part, size);
    if (part !== 'activations') continue;
    const name = trace.strings[trace.module[place] ?? 0] ?? '';
    add(modules, name.replaceAll(/(?<=^|\.)\d+(?=\.|$)/g, '*'), size);
  }
  const activations = [...modules]
    .map(([module, size]) => ({ module, bytes: size }))
    .toSorted((a, b) => b.bytes - a.bytes);
  return { bytes: parts, activations };
}

function add<Key>(sums: Map<Key, number>, key: Key, bytes: number): void {
  sums.set(key, (sums.get(key) ?? 0) + bytes);
}
