import { readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeFolder } from '../../files/folders.js';
import { readOwnFile } from '../../files/own-file.js';
import { checkArguments, fileName, text } from '../../units/arguments.js';
import { ownSocket, removeSocket, socketPath } from '../bridge/unix-socket.js';
import type { LaunchFiles } from '../launch/launch.js';
import { planFile, type RunPlan, readPlan } from './run-plan.js';

/** The folder of a run below `$PLIMSOLL_HOME/runs`, and the files in it. */
export class RunFolder {
  readonly path: string;

  constructor(home: string, id: string) {
    checkArguments('RunFolder', { home, id }, { home: fileName, id: text });
    this.path = join(home, 'runs', id);
  }

  get journal(): string {
    return join(this.path, 'journal.jsonl');
  }

  /** For what the SDK keeps: snapshots, positions. */
  get sdk(): string {
    return join(this.path, 'sdk');
  }

  get reports(): { readonly json: string; readonly html: string } {
    return { json: join(this.path, 'report.json'), html: join(this.path, 'report.html') };
  }

  /** For what an attempt is given: a changed configuration. */
  attemptFolder(number: number): string {
    return join(this.path, `attempt-${number}`);
  }

  /** The steps of an attempt that goes on. */
  progress(number: number): string {
    return join(this.path, `attempt-${number}.progress`);
  }

  attemptFiles(number: number): LaunchFiles {
    const file = (name: string) => join(this.path, `attempt-${number}.${name}`);
    return {
      exitCode: file('exit'),
      keeperPid: file('keeper'),
      jobPid: file('pid'),
      kills: file('kills'),
      become: file('become'),
      lateOutput: (name) => file(`${name}.log`),
    };
  }

  create(plan: Omit<RunPlan, 'bridge'>): RunPlan {
    makeFolder(this.sdk, 0o700);
    const whole = { ...plan, bridge: socketPath(this.path, plan.account) };
    const file = planFile(this.path);
    // Moved into place: it is found whole or not at all.
    try {
      writeFileSync(`${file}.new`, JSON.stringify(whole), { mode: 0o600 });
      renameSync(`${file}.new`, file);
    } finally {
      // On a full disk, or where a folder has its name, nothing of it stays.
      rmSync(`${file}.new`, { force: true });
    }
    return whole;
  }

  /** Undefined where it has none that is whole. */
  readPlan(): RunPlan | undefined {
    return readPlan(this.path);
  }

  /** Also where its plan cannot be read any more: then it lay in the folder, if it did anywhere. */
  removeSocket(): void {
    let plan: RunPlan | undefined;
    try {
      plan = this.readPlan();
    } catch {
      // Of a newer version.
    }
    removeSocket(plan?.bridge ?? ownSocket(this.path), this.path);
  }

  remove(): void {
    rmSync(this.path, { recursive: true, force: true });
  }
}

/** A name that sorts by time, to the millisecond: `20261115-055812345-3f2a`. */
export function newRunId(epochMs: number, random: () => number = Math.random): string {
  const time = new Date(epochMs).toISOString().replaceAll(/[-:.]/g, '').slice(0, 18);
  const tail = Math.floor(random() * 0x1_0000)
    .toString(16)
    .padStart(4, '0');
  return `${time.replace('T', '-')}-${tail}`;
}

/**
 * The name of a job's run. Such runs are looked after by the daemon that queued the job: they are in no list
 * of runs, are not swept, and are taken up only by their name.
 */
export function jobRunId(epochMs: number, jobId: string, random?: () => number): string {
  return `${newRunId(epochMs, random)}-job${jobId}`;
}

export function isRunId(name: string): boolean {
  return /^\d{8}-\d{9}-[\da-f]{4}(-job\d{1,15})?$/.test(name);
}

/** All runs that are kept, the oldest first; those of jobs are not among them. */
export function listRuns(home: string): readonly string[] {
  try {
    return readdirSync(join(home, 'runs'))
      .filter((name) => /^\d{8}-\d{9}-[\da-f]{4}$/.test(name))
      .toSorted();
  } catch {
    return [];
  }
}

/** Ten digits and a line end. */
const maxNumberBytes = 64;

/** A number that one of our scripts wrote down; undefined while it has not. */
export function readNumberFile(path: string): number | undefined {
  const written = readOwnFile(path, maxNumberBytes) ?? '';
  return /^\d{1,10}\n$/.test(written) ? Number(written) : undefined;
}
