import { type LoadLineSettings, loadLineOf } from '../device/load-line.js';
import { Failure } from '../failure.js';
import { type Clock, systemClock } from '../time/clock.js';
import { MiB } from '../units/bytes.js';
import { isKnown, type Known } from '../units/known.js';
import type { Reservation } from './types.js';

/**
 * How long memory may take to come back where use by process is not visible. What is still used then
 * is counted as used by other processes, so that it is not given again either.
 */
const patienceSeconds = 60;
/** Drivers keep a little of what a process had: within this, memory counts as returned. */
const slackBytes = 64 * MiB;

export interface LedgerDevice {
  readonly id: string;
  readonly capacityBytes: number;
}

/** What a device said at one time. */
export interface LedgerReading {
  /** On a clock that never goes back, the same as that of `release`. */
  readonly atSeconds: number;
  readonly usedBytes: Known<number>;
  /**
   * What each of our jobs uses of it. A job that is not listed uses nothing; the whole is `unknown`
   * where processes cannot be told apart.
   */
  readonly jobs: Known<ReadonlyMap<string, number>>;
}

/** The room on a device as placement and queue see it. */
export interface DeviceRoom {
  readonly id: string;
  readonly loadLineBytes: number;
  /** Used by other processes. */
  readonly otherProcessesBytes: Known<number>;
  /** The sum of the reservations of jobs that run. */
  readonly reservedBytes: number;
  /** Reserved by jobs that ended, until the device shows that it came back. */
  readonly releasingBytes: number;
  /** What can be reserved now; 0 as long as the device has not been read. */
  readonly freeBytes: number;
}

/** A promise as others see it. */
export interface LedgerEntry {
  readonly jobId: string;
  readonly bytes: number;
  readonly usedBytes: Known<number>;
  /** Its job ended, and the memory has not come back yet. */
  readonly isReleasing: boolean;
}

/** Bytes that are reserved until they are released: by hand, or by the end of a `using` block. */
export interface OpenReservation extends Disposable {
  readonly jobId: string;
  readonly devices: readonly string[];
  readonly bytes: number;
  /** Counted until a reading after this shows that the memory was freed. Twice is once. */
  release(): void;
}

interface Entry {
  readonly bytes: number;
  usedBytes: Known<number>;
  /** Set when the job ended. */
  releasedAt: number | undefined;
}

interface Account {
  readonly loadLineBytes: number;
  readonly entries: Map<string, Entry>;
  otherProcessesBytes: Known<number>;
}

/**
 * Who was promised how much of which device. The sum of the reservations on a device never passes
 * its load line; other processes count with what they use; a job that takes more than it was
 * promised counts with what it takes; and what a job had is given again only once a reading, taken
 * after its end, shows that it came back.
 *
 * It reads no hardware: readings are handed in.
 *
 * @example
 * const ledger = new Ledger([{ id: 'gpu:0', capacityBytes: 80 * 2 ** 30 }]);
 * ledger.observe('gpu:0', { atSeconds: 0, usedBytes: 0, jobs: new Map() });
 * using reserved = ledger.reserve('1', { devices: ['gpu:0'], bytes: 6 * 2 ** 30, basis: 'stated' });
 * reserved?.bytes; // 6 GiB; undefined where they are not free
 * ledger.rooms()[0]?.freeBytes; // 66 GiB
 */
export class Ledger {
  readonly #accounts = new Map<string, Account>();
  readonly #settings: LoadLineSettings;
  readonly #clock: Pick<Clock, 'seconds'>;

  /** The clock is that of the readings. */
  constructor(
    devices: readonly LedgerDevice[],
    settings: LoadLineSettings = {},
    clock: Pick<Clock, 'seconds'> = systemClock,
  ) {
    this.#settings = settings;
    this.#clock = clock;
    for (const device of devices) this.add(device);
  }

  /** A device that came later; one that came back has its reservations still. */
  add({ id, capacityBytes }: LedgerDevice): void {
    this.#accounts.set(id, {
      loadLineBytes: loadLineOf(capacityBytes, this.#settings),
      entries: this.#accounts.get(id)?.entries ?? new Map<string, Entry>(),
      otherProcessesBytes: 'unknown',
    });
  }

  /** A device is gone: nothing is reserved there until it was added and read again. */
  lose(id: string): void {
    const account = this.#accounts.get(id);
    if (account !== undefined) account.otherProcessesBytes = 'unknown';
  }

  /** Reserves the bytes on all of the devices, or on none: then it is undefined. */
  reserve(jobId: string, { devices, bytes }: Reservation): OpenReservation | undefined {
    if (!Number.isSafeInteger(bytes) || bytes < 0)
      throw new RangeError(`${bytes} is not a valid byte count`);
    const accounts = devices.map((id) => this.#account(id));
    const distinct = devices.length > 0 && new Set(devices).size === devices.length;
    const fits = accounts.every(
      (account) => roomOf('', account).freeBytes >= bytes && !account.entries.has(jobId),
    );
    if (!distinct || !fits) return undefined;
    for (const { entries } of accounts) {
      entries.set(jobId, { bytes, usedBytes: 0, releasedAt: undefined });
    }
    const release = () => this.release(jobId, this.#clock.seconds());
    return { jobId, devices, bytes, release, [Symbol.dispose]: release };
  }

  /**
   * Takes in a job that runs already, after a restart. It is there whether it fits or not, so it
   * counts; a device that is gone is left out.
   */
  restore(jobId: string, { devices, bytes }: Reservation): void {
    for (const id of devices) {
      this.#accounts
        .get(id)
        ?.entries.set(jobId, { bytes, usedBytes: 'unknown', releasedAt: undefined });
    }
  }

  /**
   * Moves what a job was promised: more only where all of its devices have the room, less at any time.
   * Less is true only once the program keeps to it; as long as it uses more, that counts.
   */
  resize(jobId: string, bytes: number): boolean {
    if (!Number.isSafeInteger(bytes) || bytes < 0)
      throw new RangeError(`${bytes} is not a valid byte count`);
    const accounts = [...this.#accounts.values()].filter(({ entries }) => entries.has(jobId));
    const fits = accounts.every((account) => {
      const entry = account.entries.get(jobId);
      return entry !== undefined && roomBeside(account, jobId) >= bytes;
    });
    const isLess = accounts.every(({ entries }) => (entries.get(jobId)?.bytes ?? 0) >= bytes);
    if (accounts.length === 0 || (!fits && !isLess)) return false;
    for (const { entries } of accounts) {
      const entry = entries.get(jobId);
      if (entry !== undefined) entries.set(jobId, { ...entry, bytes });
    }
    return true;
  }

  /** The job ended. Its bytes stay counted until readings confirm that they came back. */
  release(jobId: string, atSeconds: number): void {
    for (const { entries } of this.#accounts.values()) {
      const entry = entries.get(jobId);
      if (entry !== undefined) entry.releasedAt ??= atSeconds;
    }
  }

  observe(deviceId: string, { atSeconds, usedBytes, jobs }: LedgerReading): void {
    const account = this.#account(deviceId);
    for (const [id, entry] of account.entries) {
      entry.usedBytes = isKnown(jobs) ? (jobs.get(id) ?? 0) : 'unknown';
    }
    // Without a figure the last one stands: better an old one than none.
    if (!isKnown(usedBytes)) return;
    const back = [...account.entries].filter(([, entry]) =>
      cameBack(account, entry, usedBytes, atSeconds),
    );
    for (const [id] of back) account.entries.delete(id);
    // What did not come back is not used by a job: from here on it counts as other processes.
    account.otherProcessesBytes =
      back.length > 0 ? unclaimed(account, usedBytes) : otherProcesses(account, usedBytes);
  }

  /** The reservations of a device, by job. */
  entries(deviceId: string): readonly LedgerEntry[] {
    return [...(this.#accounts.get(deviceId)?.entries ?? [])].map(
      ([jobId, { bytes, usedBytes, releasedAt }]) => ({
        jobId,
        bytes,
        usedBytes,
        isReleasing: releasedAt !== undefined,
      }),
    );
  }

  rooms(): readonly DeviceRoom[] {
    return [...this.#accounts].map(([id, account]) => roomOf(id, account));
  }

  #account(id: string): Account {
    const account = this.#accounts.get(id);
    if (account === undefined) {
      throw new Failure({
        kind: 'input',
        code: 'unknown-device',
        fact: `There is no device ${id}; there are ${[...this.#accounts.keys()].join(', ')}.`,
        next: 'Run "plimsoll devices" to see them.',
      });
    }
    return account;
  }
}

function roomOf(id: string, account: Account): DeviceRoom {
  const { loadLineBytes, otherProcessesBytes } = account;
  const entries = [...account.entries.values()];
  const taken = entries.reduce(
    (total, { bytes, usedBytes }) => total + Math.max(bytes, isKnown(usedBytes) ? usedBytes : 0),
    0,
  );
  return {
    id,
    loadLineBytes,
    otherProcessesBytes,
    reservedBytes: promised(entries.filter(({ releasedAt }) => releasedAt === undefined)),
    releasingBytes: promised(entries.filter(({ releasedAt }) => releasedAt !== undefined)),
    freeBytes: isKnown(otherProcessesBytes)
      ? Math.max(0, loadLineBytes - taken - otherProcessesBytes)
      : 0,
  };
}

/** What a job could have on a device if nothing of it were there. */
function roomBeside(account: Account, jobId: string): number {
  const entries = new Map([...account.entries].filter(([id]) => id !== jobId));
  return roomOf('', { ...account, entries }).freeBytes;
}

function promised(entries: readonly Entry[]): number {
  return entries.reduce((total, { bytes }) => total + bytes, 0);
}

function cameBack(account: Account, entry: Entry, usedBytes: number, atSeconds: number): boolean {
  // A reading from before the end says nothing about what came after it.
  if (entry.releasedAt === undefined || atSeconds <= entry.releasedAt) return false;
  if (isKnown(entry.usedBytes)) return entry.usedBytes === 0;
  const known = isKnown(account.otherProcessesBytes) ? account.otherProcessesBytes : 0;
  return (
    unclaimed(account, usedBytes) <= known + slackBytes ||
    atSeconds - entry.releasedAt >= patienceSeconds
  );
}

/** The most that other processes can use: all that no job of ours is known to use. */
function unclaimed({ entries }: Account, usedBytes: number): number {
  const ours = [...entries.values()].map((entry) =>
    isKnown(entry.usedBytes) ? entry.usedBytes : 0,
  );
  return Math.max(0, usedBytes - ours.reduce((total, bytes) => total + bytes, 0));
}

/**
 * Exact where the use of every job of ours is known. Where it is not, the last figure stands as long
 * as it is possible: a job may use anything between nothing and what it was promised.
 */
function otherProcesses(account: Account, usedBytes: number): number {
  const most = unclaimed(account, usedBytes);
  const hidden = [...account.entries.values()].reduce(
    (total, entry) => total + (isKnown(entry.usedBytes) ? 0 : entry.bytes),
    0,
  );
  if (hidden === 0) return most;
  const least = Math.max(0, most - hidden);
  const last = isKnown(account.otherProcessesBytes) ? account.otherProcessesBytes : most;
  return Math.min(most, Math.max(least, last));
}
