import type { Known } from '../../units/known.js';
import { type Hook, hooks } from '../ladder/in-process.js';

/** The version of this language; a newer SDK says so in its hello, and is still understood. */
const bridgeVersion = 1;

/** Larger than any cluster; a number beyond it is a mistake. */
const mostRanks = 65_536;

export interface Hello {
  readonly type: 'hello';
  readonly version: number;
  readonly pid: number;
  readonly rank: number;
  readonly world: number;
  readonly torch: string | null;
  readonly hooks: readonly Hook[];
  readonly device: string;
}

/** What the allocator in the process holds. */
export interface Figures {
  readonly type: 'figures';
  readonly at: number;
  readonly allocatedBytes: Known<number>;
  readonly reservedBytes: Known<number>;
  readonly peakAllocatedBytes: Known<number>;
  readonly peakReservedBytes: Known<number>;
  readonly freeBytes: Known<number>;
  readonly totalBytes: Known<number>;
  readonly phase: string;
}

export interface OutOfMemoryMessage {
  readonly type: 'oom';
  readonly id: string | number;
  readonly rank: number;
  readonly round: number | undefined;
  readonly phase: string;
  readonly kind: string;
  readonly message: string;
  readonly askedBytes: Known<number>;
  readonly microbatch: number;
  readonly batch: number;
  readonly peakBytes: Known<number>;
  readonly snapshot: string | null;
}

export interface StepMessage {
  readonly type: 'step';
  readonly number: number;
  readonly microbatch: number;
  readonly batch: number;
  readonly peakBytes: Known<number>;
}

export interface BarrierMessage {
  readonly type: 'barrier';
  readonly round: number;
  readonly rank: number;
  readonly ok: boolean;
}

export type FromSdk =
  | Hello
  | Figures
  | OutOfMemoryMessage
  | StepMessage
  | BarrierMessage
  | { readonly type: 'bye' };

export type ToSdk =
  | {
      readonly type: 'decide';
      readonly id: string | number | null;
      readonly round: number | null;
      readonly action: 'retry' | 'raise';
      readonly microbatch: number;
      readonly rung: string | null;
      readonly why: string;
    }
  | { readonly type: 'grow'; readonly microbatch: number; readonly why: string }
  | {
      readonly type: 'verdict';
      readonly round: number;
      readonly ok: boolean;
      readonly microbatch: number;
    };

/** What a document says, or undefined where it says nothing that we know. */
export function readMessage(document: unknown): FromSdk | undefined {
  if (typeof document !== 'object' || document === null) return undefined;
  const get = (name: string): unknown => Reflect.get(document, name);
  const count = (name: string, most = Number.MAX_SAFE_INTEGER): number | undefined => {
    const value = get(name);
    const isCount = typeof value === 'number' && Number.isSafeInteger(value);
    return isCount && value >= 0 && value <= most ? value : undefined;
  };
  const bytes = (name: string): Known<number> => count(name) ?? 'unknown';
  const text = (name: string): string => {
    const value = get(name);
    return typeof value === 'string' ? value.slice(0, 4096) : 'unknown';
  };
  const wordOrNull = (name: string): string | null => {
    const value = get(name);
    return typeof value === 'string' ? value.slice(0, 4096) : null;
  };
  switch (get('type')) {
    case 'hello': {
      const rank = count('rank', mostRanks) ?? 0;
      const given: unknown = get('hooks');
      const named: readonly unknown[] = Array.isArray(given) ? given : [];
      return {
        type: 'hello',
        version: count('version') ?? bridgeVersion,
        pid: count('pid') ?? 0,
        rank,
        world: Math.max(1, count('world', mostRanks) ?? 1, rank + 1),
        torch: wordOrNull('torch'),
        hooks: hooks.filter((hook) => named.includes(hook)),
        device: text('device'),
      };
    }
    case 'figures': {
      const at = get('at');
      return {
        type: 'figures',
        at: typeof at === 'number' ? at : 0,
        allocatedBytes: bytes('allocatedBytes'),
        reservedBytes: bytes('reservedBytes'),
        peakAllocatedBytes: bytes('peakAllocatedBytes'),
        peakReservedBytes: bytes('peakReservedBytes'),
        freeBytes: bytes('freeBytes'),
        totalBytes: bytes('totalBytes'),
        phase: text('phase'),
      };
    }
    case 'oom': {
      const id = get('id');
      const microbatch = count('microbatch') ?? 0;
      return {
        type: 'oom',
        id: typeof id === 'number' || typeof id === 'string' ? id : 0,
        rank: count('rank', mostRanks) ?? 0,
        round: count('round'),
        phase: text('phase'),
        kind: text('kind'),
        message: text('message'),
        askedBytes: bytes('askedBytes'),
        microbatch,
        batch: count('batch') ?? microbatch,
        peakBytes: bytes('peakBytes'),
        snapshot: wordOrNull('snapshot'),
      };
    }
    case 'step': {
      const [number, microbatch] = [count('number'), count('microbatch')];
      if (number === undefined || microbatch === undefined || microbatch < 1) return undefined;
      const batch = Math.max(microbatch, count('batch') ?? 0);
      return { type: 'step', number, microbatch, batch, peakBytes: bytes('peakBytes') };
    }
    case 'barrier': {
      const [round, rank, ok] = [count('round'), count('rank', mostRanks), get('ok')];
      if (round === undefined || rank === undefined || typeof ok !== 'boolean') return undefined;
      return { type: 'barrier', round, rank, ok };
    }
    case 'bye':
      return { type: 'bye' };
    default:
      return undefined;
  }
}
