import { readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Failure } from '../../failure.js';
import { makeFolder } from '../../files/make-folder.js';
import { socketPath } from '../bridge/unix-socket.js';
import type { LaunchFiles } from '../launch/launch.js';
import type { LogLimit } from '../log/log-limit.js';
import type { RunSettings } from '../types.js';

/** What a run was asked to be; it does not change. */
export interface RunPlan {
  readonly schema: 1;
  readonly id: string;
  readonly command: readonly string[];
  readonly folder: string;
  readonly createdAt: string;
  /** What the first attempt is told. */
  readonly settings: RunSettings;
  readonly memoryBytes: number | null;
  readonly maxAttempts: number;
  /** Whether the device was named, so that the program shall see no other. */
  readonly pinnedDevice: boolean;
  readonly bridge: string;
  /** Files that the person asked for. */
  readonly reports: readonly string[];
  /** All that it may see, where that is more than the one of its settings. */
  readonly devices?: readonly string[] | undefined;
  /** The file that takes what it prints, whoever supervises it. */
  readonly log?: string | undefined;
  /** How much of that file is kept, where it is not what jobs have. */
  readonly logLimit?: LogLimit | undefined;
  /** What the program gets on top of its supervisor's environment. */
  readonly environment?: Readonly<Record<string, string>> | undefined;
}

/** The folder of a run below `$PLIMSOLL_HOME/runs`, and the files in it. */
export class RunFolder {
  readonly path: string;

  constructor(home: string, id: string) {
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

  attemptFiles(number: number): LaunchFiles {
    const file = (name: string) => join(this.path, `attempt-${number}.${name}`);
    return {
      exitCode: file('exit'),
      keeperPid: file('keeper'),
      jobPid: file('pid'),
      kills: file('kills'),
      lateOutput: (name) => file(`${name}.log`),
    };
  }

  create(plan: Omit<RunPlan, 'bridge'>): RunPlan {
    makeFolder(this.sdk, 0o700);
    const whole = { ...plan, bridge: socketPath(this.path) };
    const file = join(this.path, 'run.json');
    // Moved into place: whoever finds it finds all of it.
    writeFileSync(`${file}.new`, JSON.stringify(whole), { mode: 0o600 });
    renameSync(`${file}.new`, file);
    return whole;
  }

  readPlan(): RunPlan | undefined {
    try {
      const plan: RunPlan = JSON.parse(readFileSync(join(this.path, 'run.json'), 'utf8'));
      return plan;
    } catch {
      return undefined;
    }
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
 * The name of a job's run. Such runs are looked after by whoever queued the job: they are in no list
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

export function unknownRun(id: string, known: readonly string[]): Failure {
  const listed =
    known.length === 0 ? 'There is none.' : `There are ${known.slice(-10).join(', ')}.`;
  return new Failure({
    kind: 'input',
    code: 'unknown-run',
    fact: `There is no unfinished run ${id}.`,
    next: `Unfinished runs: ${listed}`,
  });
}
