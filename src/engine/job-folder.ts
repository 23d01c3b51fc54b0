import { randomBytes } from 'node:crypto';
import {
  closeSync,
  existsSync,
  fsyncSync,
  linkSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { makeFolder } from '../files/folders.js';
import { readOwnDocument } from '../files/own-file.js';
import { MiB } from '../units/bytes.js';
import type { Known } from '../units/known.js';
import type { ClusterOrder } from './cluster.js';

/** The job as it was submitted; it does not change. */
export interface KeptOrder extends Omit<ClusterOrder, 'options'> {
  readonly schema: 1;
  readonly key: string;
  readonly submittedAt: string;
  /** The command `plimsoll` as the nodes start it. */
  readonly plimsoll: readonly string[];
  /** The folder for the peaks of all jobs. */
  readonly measured: string;
}

/** One submission: the first, or the successor of one that ran out of memory. */
export interface KeptAttempt {
  readonly schema: 1;
  readonly number: number;
}

/** How an attempt ended, as the node wrote it, or as the cluster said. */
export interface KeptEnd {
  readonly schema: 1;
  readonly outcome: 'succeeded' | 'failed' | 'cancelled';
  readonly exitCode: Known<number>;
  readonly outOfMemory: boolean;
  readonly peakBytes: Known<number>;
  readonly node: string;
  readonly endedAt: string;
}

type Document = Readonly<Record<string, unknown>>;

/** How the documents of an engine are told from others. */
export interface KeptForms<Order, Attempt, End> {
  readonly isOrder: (document: Document) => document is Document & Order;
  readonly isAttempt: (document: Document) => document is Document & Attempt;
  readonly isEnd: (document: Document) => document is Document & End;
}

/** A task of an array has attempts of its own from its second one on. */
export type Task = number | 'all';

/** How often a node says that it runs a job. */
export const runningMs = 5000;
/** A command and its options have some MiB at most. */
const maxBytes = 16 * MiB;

/** The files of one job on the shared file system. Each is written once, whole. */
export class JobFolder<Order extends KeptOrder, Attempt extends KeptAttempt, End extends KeptEnd> {
  readonly path: string;
  readonly #forms: KeptForms<Order, Attempt, End>;

  constructor(path: string, forms: KeptForms<Order, Attempt, End>) {
    this.path = path;
    this.#forms = forms;
  }

  get key(): string {
    return this.path.slice(this.path.lastIndexOf('/') + 1);
  }

  create(order: Order): void {
    for (const part of ['', 'attempts', 'ends', 'started', 'ended', 'lost'])
      makeFolder(join(this.path, part), 0o700);
    writeWhole(join(this.path, 'job.json'), order);
  }

  remove(): void {
    rmSync(this.path, { recursive: true, force: true });
  }

  order(): Order | undefined {
    const order = readOwnDocument(join(this.path, 'job.json'), { schema: 1, maxBytes });
    return order !== undefined && this.#forms.isOrder(order) ? order : undefined;
  }

  writeAttempt(task: Task, attempt: Attempt): void {
    writeWhole(this.#attemptFile(task, attempt.number), attempt);
  }

  /** Whether this call made it: of several processes one does. */
  claimAttempt(task: Task, attempt: Attempt): boolean {
    return writeOnce(this.#attemptFile(task, attempt.number), attempt);
  }

  attempt(task: Task, number: number): Attempt | undefined {
    const found = readOwnDocument(this.#attemptFile(task, number), { schema: 1, maxBytes });
    return found !== undefined && this.#forms.isAttempt(found) ? found : undefined;
  }

  /** Those of a task, in their order; the first is that of all tasks. */
  attempts(task: Task): readonly Attempt[] {
    const found: Attempt[] = [];
    for (let number = 1; ; number++) {
      const attempt = this.attempt(number === 1 ? 'all' : task, number);
      if (attempt === undefined) return found;
      found.push(attempt);
    }
  }

  /** By the node, which saw it: a job that is started again by hand ends again. */
  writeEnd(task: Task, number: number, end: End): void {
    writeWhole(this.#endFile(task, number), end);
  }

  /** As the cluster says it, which may forget it soon; what the node wrote stays. */
  keepEnd(task: Task, number: number, end: End): void {
    writeOnce(this.#endFile(task, number), end);
  }

  end(task: Task, number: number): End | undefined {
    const found = readOwnDocument(this.#endFile(task, number), { schema: 1, maxBytes });
    return found !== undefined && this.#forms.isEnd(found) ? found : undefined;
  }

  /** The node that runs it writes this again and again, until it marks it as ended. */
  markRunning(clusterId: string, restart: number): void {
    const at = { at: new Date().toISOString() };
    writeWhole(join(this.path, 'started', startName(clusterId, restart)), at);
  }

  /** A node may be running it: one wrote so a moment ago, and none that it is over. */
  mayRun(withinMs: number, isAsked: (start: string) => boolean = () => true): boolean {
    const over = new Set(wholeFiles(join(this.path, 'ended')));
    const open = wholeFiles(join(this.path, 'started')).filter(
      (name) => !over.has(name) && isAsked(name),
    );
    if (open.length === 0) return false;
    // By the clock of the file system: those of nodes differ.
    const probe = join(this.path, 'probe');
    writeWhole(probe, {});
    const nowMs = statSync(probe).mtimeMs;
    return open.some(
      (name) => nowMs - statSync(join(this.path, 'started', name)).mtimeMs < withinMs,
    );
  }

  /** Of several processes that see that the cluster lost this submission, one submits it again. */
  claimLost(submission: string, olderThanMs: number): boolean {
    for (let claim = 1; ; claim++) {
      const path = join(this.path, 'lost', `${submission}.${claim}`);
      if (writeOnce(path, { at: new Date().toISOString() })) return true;
      // A process that claimed it long ago died before it could submit: the next claim counts.
      if (statSync(path).mtimeMs >= olderThanMs) return false;
    }
  }

  /** Tells the script that started it that the node is done with this start of the job. */
  markEnded(clusterId: string, restart: number): void {
    writeWhole(this.endedFile(startName(clusterId, restart)), { at: new Date().toISOString() });
  }

  endedFile(name: string): string {
    return join(this.path, 'ended', name);
  }

  /** No successor is submitted from now on. */
  markCancelled(): void {
    writeOnce(join(this.path, 'cancelled'), { at: new Date().toISOString() });
  }

  get isCancelled(): boolean {
    return existsSync(join(this.path, 'cancelled'));
  }

  reportFile(clusterId: string, restart: number): string {
    return this.reportOf(startName(clusterId, restart));
  }

  reportOf(start: string): string {
    return join(this.path, `report-${start}.json`);
  }

  #endFile(task: Task, number: number): string {
    return join(this.path, 'ends', `${task}.${number}.json`);
  }

  #attemptFile(task: Task, number: number): string {
    return join(this.path, 'attempts', `${task}.${number}.json`);
  }
}

/** A start of a job by a node, in the names of files. */
export function startName(clusterId: string, restart: number): string {
  return `${clusterId}.${restart}`;
}

/** Returns the folder of a new job. Names begin with the time in milliseconds, so that they sort by it. */
export function newJobPath(engineHome: string, atMs: number): string {
  const time = new Date(atMs).toISOString().replaceAll(/[-:.]/g, '');
  return join(engineHome, 'jobs', `${time}-${randomBytes(4).toString('hex')}`);
}

/** Of all jobs of an engine, the newest first. */
export function jobPaths(engineHome: string): readonly string[] {
  const all = join(engineHome, 'jobs');
  if (!existsSync(all)) return [];
  const names = readdirSync(all).filter((name) => /^\d{8}T\d{9}Z-[0-9a-f]{8}$/.test(name));
  return names
    .toSorted()
    .toReversed()
    .map((name) => join(all, name));
}

export function isKeptOrder(order: Document): boolean {
  const { key, name, cwd, submittedAt, workloadKey, measured, gpus, maxAttempts } = order;
  return (
    [key, name, cwd, submittedAt, workloadKey, measured].every(
      (text) => typeof text === 'string',
    ) &&
    [gpus, maxAttempts].every((number) => Number.isSafeInteger(number)) &&
    [order['command'], order['plimsoll']].every(isTexts)
  );
}

export function isKeptEnd(end: Document): boolean {
  const { outcome, node, endedAt } = end;
  return (
    typeof outcome === 'string' &&
    ['succeeded', 'failed', 'cancelled'].includes(outcome) &&
    typeof node === 'string' &&
    typeof endedAt === 'string'
  );
}

export function isTexts(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((one) => typeof one === 'string');
}

/** How the name of a file ends that is being written. A folder may show one at any moment, and not a moment later. */
const unfinished = '.tmp';

/** The files of a folder that are whole. */
function wholeFiles(folder: string): readonly string[] {
  return readdirSync(folder).filter((name) => !name.endsWith(unfinished));
}

/** Takes the place of what was there, at once: a reader on another node sees the old or the new one. */
function writeWhole(path: string, document: object): void {
  const temporary = writeBeside(path, document);
  renameSync(temporary, path);
}

/** Whether this call made the file. A link to a name that is taken fails on every file system. */
export function writeOnce(path: string, document: object): boolean {
  const temporary = writeBeside(path, document);
  try {
    linkSync(temporary, path);
    return true;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return false;
    throw error;
  } finally {
    unlinkSync(temporary);
  }
}

function writeBeside(path: string, document: object): string {
  const temporary = `${path}.${randomBytes(6).toString('hex')}${unfinished}`;
  const file = openSync(temporary, 'wx', 0o600);
  try {
    writeFileSync(file, `${JSON.stringify(document)}\n`);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  return temporary;
}

export type JsonObject = Readonly<Record<string, unknown>>;

/** A field as an object; one that is none is empty. */
export function objectIn(value: unknown): JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : {};
}

export function objectsIn(value: unknown): readonly JsonObject[] {
  return Array.isArray(value) ? value.map(objectIn) : [];
}

export function textIn(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

/** A text or a number, as both are written for amounts. */
export function amountIn(value: unknown): string {
  return typeof value === 'number' ? String(value) : textIn(value);
}
