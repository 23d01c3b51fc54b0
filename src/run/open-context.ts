import { join } from 'node:path';
import { machineRoots } from '../device/roots.js';
import { packageFolder } from '../files/package-folder.js';
import { systemClock } from '../time/clock.js';
import { loadLibc } from './launch/libc.js';
import { planOutputs } from './launch/outputs.js';
import { areOneOutput, ownOutput, silent, sparing } from './launch/own-outputs.js';
import { addToLog } from './log/log-lock.js';
import { noOrphans, type watchOrphans } from './processes/orphans.js';
import type { RunContext } from './run-context.js';
import type { RunDevice } from './run-device.js';

export interface OpenContextOptions
  extends Pick<RunContext, 'home' | 'version' | 'environment' | 'signals' | 'explain'> {
  readonly device: RunDevice;
  /** Left out in a process that does other things besides: its children are not all of the run. */
  readonly orphans?: ReturnType<typeof watchOrphans>;
  readonly graceSeconds: number;
  /** Stdout is for something else, such as a JSON document. */
  readonly keepStdoutFree: boolean;
  /** What the job prints goes to its log by itself; showing it again would double it. */
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
