import { renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { readOwnDocument } from '../../files/own-file.js';
import { formatBytes } from '../../units/bytes.js';
import { isKnown } from '../../units/known.js';
import type { LimitAnswer, LimitOrder, Spilling } from '../bridge/spilling.js';
import type { RunFolder } from '../store/run-folder.js';
import type { RunPlan } from '../store/run-plan.js';
import type { EnforcedLimit } from '../types.js';
import { type LimitCgroup, moveCgroupLimit, readCgroup } from './cgroup.js';

const schema = 1;
/** Two numbers. */
const maxBytes = 4096;

function orderFile(runFolder: string): string {
  return join(runFolder, 'limit.json');
}

/**
 * The limit that was asked for last, all that the program may take of its device included; undefined
 * where none was asked for since the run began.
 */
export function readLimitOrder(runFolder: string): LimitOrder | undefined {
  const { order, bytes } = readOwnDocument(orderFile(runFolder), { schema, maxBytes }) ?? {};
  return isCount(order) && isCount(bytes) ? { order, bytes } : undefined;
}

/**
 * Asks a run to keep another limit from now on. Its supervisor finds it there, also one that comes
 * later, and writes into the journal which limit is in force.
 *
 * @example
 * orderLimit(folder.path, 20 * GiB); // { order: 1, bytes: 21474836480 }
 */
export function orderLimit(runFolder: string, bytes: number): LimitOrder {
  const order = { order: (readLimitOrder(runFolder)?.order ?? 0) + 1, bytes };
  const file = orderFile(runFolder);
  try {
    writeFileSync(`${file}.new`, JSON.stringify({ schema, ...order }), { mode: 0o600 });
    renameSync(`${file}.new`, file);
  } finally {
    rmSync(`${file}.new`, { force: true });
  }
  return order;
}

/** The plan with the limit that was asked for last: the next attempt begins with that. */
export function limitedNow<P extends Pick<RunPlan, 'memoryBytes'>>(
  plan: P,
  { path }: Pick<RunFolder, 'path'>,
): P {
  const order = readLimitOrder(path);
  return order === undefined ? plan : { ...plan, memoryBytes: order.bytes };
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value > 0;
}

export interface MovingLimitOptions {
  /** The limit that the attempt was started with. */
  readonly start: EnforcedLimit;
  readonly onHost: boolean;
  readonly cgroup: LimitCgroup | undefined;
  /** Taken off what is asked for: on a GPU the CUDA context. */
  readonly besideBytes: number;
  readonly read: () => LimitOrder | undefined;
  /** Bytes as they were asked for: what is taken off is added again. */
  readonly onAnswer: (answer: LimitAnswer) => void;
}

/** The limit of an attempt that goes on, as it is moved from outside. */
export class MovingLimit {
  readonly #options: MovingLimitOptions;
  #order = 0;
  #cgroupBytes: number;
  #highest: number | 'none';

  constructor(options: MovingLimitOptions) {
    this.#options = options;
    const { bytes } = options.start;
    this.#cgroupBytes = typeof bytes === 'number' ? bytes : Number.POSITIVE_INFINITY;
    this.#highest = typeof bytes === 'number' ? bytes : 'none';
  }

  /** The limit of the report: the highest that it had, so that no peak below it counts as too much. */
  get enforced(): EnforcedLimit {
    const { start } = this.#options;
    if (this.#order === 0 || this.#highest === 'none') return start;
    return {
      ...start,
      bytes: this.#highest,
      why: `${start.why} The limit was moved while it ran.`,
    };
  }

  /** Looks whether another limit was asked for. */
  look(spilling: Spilling): void {
    const { read, onHost, start, cgroup, besideBytes } = this.#options;
    const found = read();
    if (found === undefined || found.order <= this.#order) return;
    this.#order = found.order;
    const bytes = Math.max(1, found.bytes - besideBytes);
    if (this.#highest !== 'none') this.#highest = Math.max(this.#highest, bytes);
    const order = { order: found.order, bytes };
    if (!onHost) {
      spilling.ask(order);
      return;
    }
    if (cgroup === undefined) {
      const why = 'The limit of an address space cannot be moved while the program runs.';
      this.#answer({
        order: order.order,
        bytes: this.#startBytes(),
        why: start.by === 'none' ? 'It has no limit.' : why,
      });
      return;
    }
    // More room first, then the word; less room only when the program has given way.
    const isLower = bytes < this.#cgroupBytes;
    if (!isLower) this.#moveCgroup(order);
    spilling.ask(order);
    if (isLower && !spilling.hears) this.#moveCgroup(order);
  }

  /** All processes of the program have answered. */
  answered(answer: LimitAnswer, spilling: Spilling): void {
    const { onHost } = this.#options;
    if (!onHost) this.#answer(answer);
    else if (spilling.hears && answer.bytes !== 'none') {
      this.#moveCgroup({ order: answer.order, bytes: answer.bytes });
    }
  }

  /** The kernel would kill a program that holds more. */
  #moveCgroup(order: LimitOrder): void {
    const { cgroup } = this.#options;
    if (cgroup === undefined) return;
    const { heldBytes } = readCgroup(cgroup);
    const holdsMore = isKnown(heldBytes) && heldBytes > order.bytes;
    const why = holdsMore
      ? `It holds ${formatBytes(heldBytes)}.`
      : moveCgroupLimit(cgroup, order.bytes);
    if (why === undefined) this.#cgroupBytes = order.bytes;
    this.#answer({ order: order.order, bytes: this.#cgroupBytes, why: why ?? '' });
  }

  #startBytes(): number | 'none' {
    const { bytes } = this.#options.start;
    return typeof bytes === 'number' ? bytes : 'none';
  }

  #answer({ order, bytes, why }: LimitAnswer): void {
    const { besideBytes, onAnswer } = this.#options;
    onAnswer({ order, bytes: bytes === 'none' ? bytes : bytes + besideBytes, why });
  }
}
