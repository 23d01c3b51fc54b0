import { join } from 'node:path';
import { machineRoots } from '../device/kernel-files.js';
import { packageFolder } from '../files/folders.js';
import { type Clock, systemClock } from '../time/clock.js';
import { type Libc, loadLibc } from './launch/libc.js';
import {
  areOneOutput,
  type OutputPlan,
  ownOutput,
  planOutputs,
  type RawOutput,
  silent,
  sparing,
} from './launch/outputs.js';
import type { SignalSource } from './launch/signal-relay.js';
import { addToLog } from './log/log-limit.js';
import type { Patience } from './processes/end-tree.js';
import { noOrphans, type Orphans, type watchOrphans } from './processes/orphans.js';
import type { HeldOnDevice, RunDevice } from './run-device.js';
import type { AttemptSnapshot } from './types.js';

/** The parts of the machine that a run may use; the command and tests pass it in. */
export interface RunContext {
  readonly clock: Clock;
  readonly home: string;
  readonly version: string;
  readonly platform: NodeJS.Platform;
  readonly procRoot: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly signals: SignalSource;
  /** Undefined where it could not be loaded; `libcMissing` says why. */
  readonly libc: Libc | undefined;
  readonly libcMissing: string | undefined;
  /** Processes of the program that have lost their parents. */
  readonly orphans: Orphans;
  readonly outputs: {
    readonly plan: readonly OutputPlan[];
    readonly stdout: RawOutput;
    readonly stderr: RawOutput;
  };
  /** The folder that holds the Python package. */
  readonly pythonFolder: string;
  /** Adds what a snapshot of memory tells; it answers for every file, readable or not. */
  readonly explain: (snapshot: AttemptSnapshot) => Promise<AttemptSnapshot>;
  /** For people, on stderr, only when something happens that they must know. */
  readonly notify: (line: string) => void;
  /** Reads the bytes of these processes on the run's device; undefined if not known. */
  readonly readDevice: (pids: readonly number[]) => Promise<HeldOnDevice | undefined>;
  readonly patience: Patience;
}

interface OpenContextOptions
  extends Pick<RunContext, 'home' | 'version' | 'environment' | 'signals' | 'explain'> {
  readonly device: RunDevice;
  /** Left out in a process that does other things besides: its children are not all of the run. */
  readonly orphans?: ReturnType<typeof watchOrphans>;
  readonly graceSeconds: number;
  /** Stdout is for something else, such as a JSON document. */
  readonly keepStdoutFree: boolean;
  /** The log receives the job's output by itself; showing it again would double it. */
  readonly hasLog: boolean;
  /** Lines about the run, for people. */
  readonly notify: (line: string) => void;
}

/** The parts of this machine that a run uses. */
export async function openContext(options: OpenContextOptions): Promise<RunContext> {
  const { home, version, environment, signals, explain, device, keepStdoutFree, hasLog } = options;
  const loaded = await loadLibc();
  const libc = 'why' in loaded ? undefined : loaded;
  const stdout = ownOutput(process.stdout);
  const stderr = ownOutput(process.stderr);
  return {
    clock: systemClock,
    home,
    version,
    platform: process.platform,
    procRoot: machineRoots.proc,
    environment,
    signals,
    libc,
    libcMissing: 'why' in loaded ? loaded.why : undefined,
    orphans: options.orphans?.(libc) ?? noOrphans,
    outputs: {
      plan: planOutputs({
        stdout: hasLog ? sparing(stdout) : stdout,
        stderr: hasLog ? sparing(stderr) : stderr,
        areOne: areOneOutput(),
        keepStdoutFree,
      }),
      stdout: hasLog ? silent(stdout) : keepStdoutFree ? stderr : stdout,
      stderr: hasLog ? silent(stderr) : stderr,
    },
    // The sources and the build lie equally deep below the package.
    pythonFolder: join(packageFolder, 'python'),
    explain,
    notify(line) {
      // The program's bar may stand on either of them; a line of ours starts one of its own.
      const isFresh = stdout.atLineStart && stderr.atLineStart;
      const text = `${isFresh ? '' : '\n'}${line.replaceAll(/\p{Cc}+/gu, ' ')}\n`;
      if (hasLog && libc?.pipes !== undefined) addToLog(libc.pipes, '/proc/self/fd/2', text);
      else options.notify(text);
    },
    readDevice: (pids) => device.readDevice(pids),
    patience: {
      bySelfSeconds: Math.min(1, options.graceSeconds),
      afterTermSeconds: options.graceSeconds,
    },
  };
}
