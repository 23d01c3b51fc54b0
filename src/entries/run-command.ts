import { type Discovery, discoverDevices } from '../device/discover.js';
import { machineRoots } from '../device/kernel-files.js';
import { homeFolder, packageVersion } from '../files/folders.js';
import { explainSnapshot } from '../report/findings.js';
import type { SignalSource } from '../run/launch/signal-relay.js';
import { newRun, runDefaults } from '../run/new-run.js';
import { checkPlatform } from '../run/program.js';
import { openContext } from '../run/run-context.js';
import { openRunDevice } from '../run/run-device.js';
import { superviseRun } from '../run/supervise.js';
import type { RunReport } from '../run/types.js';
import { systemClock } from '../time/clock.js';
import {
  callable,
  checkOptions,
  fileName,
  object,
  seconds,
  text,
  texts,
  whole,
} from '../units/arguments.js';

/** The options of `plimsoll run`; what is left out is as there. */
export interface RunCommandOptions {
  /** With placeholders such as `{batch_size}` where the program takes them. */
  readonly command: readonly string[];
  readonly batchSize?: number | undefined;
  readonly accumulation?: number | undefined;
  readonly precision?: string | undefined;
  /** An enforced limit. */
  readonly memoryBytes?: number | undefined;
  /** `gpu:0`, `host`, or `auto`: the GPU with the most free memory, else the host. */
  readonly device?: string | undefined;
  readonly maxAttempts?: number | undefined;
  /** Seconds to wait for leftover child processes before killing them. */
  readonly graceSeconds?: number | undefined;
  readonly folder?: string | undefined;
  readonly environment?: Readonly<Record<string, string | undefined>> | undefined;
  /** Where the state of the run is kept; `$PLIMSOLL_HOME` otherwise. */
  readonly home?: string | undefined;
  /** Ends the program as SIGTERM does. */
  readonly signal?: AbortSignal | undefined;
  /** Lines about the run, for people; stderr otherwise. */
  readonly notify?: ((line: string) => void) | undefined;
}

/**
 * What `plimsoll run` does: runs a program, and starts it again with smaller settings when it runs
 * out of memory. Signals that reach this process are passed on to the program while it runs.
 *
 * @example
 * const report = await runCommand({
 *   command: ['python', 'train.py', '--batch-size', '{batch_size}', '--accumulate', '{accumulation}'],
 *   batchSize: 32,
 *   memoryBytes: 8 * 2 ** 30,
 * });
 * console.log(report.outcome, report.attempts.length);
 */
export async function runCommand(options: RunCommandOptions): Promise<RunReport> {
  checkOptions('runCommand', options, runRules, ['command']);
  checkPlatform('runCommand');
  return runOn(await discoverDevices(), options);
}

const runRules = {
  command: texts,
  batchSize: whole(1),
  accumulation: whole(1),
  precision: text,
  memoryBytes: whole(1),
  device: text,
  maxAttempts: whole(1),
  graceSeconds: seconds,
  folder: fileName,
  environment: object,
  home: fileName,
  signal: object,
  notify: callable,
};

async function runOn(discovery: Discovery, options: RunCommandOptions): Promise<RunReport> {
  const { device: wanted = 'auto', environment = process.env, folder = process.cwd() } = options;
  const home = options.home ?? homeFolder(environment);
  const device = await openRunDevice(wanted, discovery);
  const signals = signalsOf(options.signal);
  try {
    const context = await openContext({
      home,
      version: packageVersion(),
      environment,
      signals: signals.source,
      explain: explainSnapshot,
      device,
      graceSeconds: options.graceSeconds ?? runDefaults.graceSeconds,
      keepStdoutFree: false,
      hasLog: false,
      notify: options.notify ?? ((line) => void process.stderr.write(line)),
    });
    const run = newRun({
      command: options.command,
      batchSize: options.batchSize,
      accumulation: options.accumulation ?? runDefaults.accumulation,
      precision: options.precision ?? runDefaults.precision,
      memoryBytes: options.memoryBytes,
      maxAttempts: options.maxAttempts ?? runDefaults.maxAttempts,
      device: device.id,
      isSimulated: device.isSimulated,
      pinnedDevice: wanted !== 'auto',
      folder,
      environment,
      home,
      reports: [],
      clock: systemClock,
      procRoot: machineRoots.proc,
    });
    return await superviseRun({ ...run, context, visibleAs: (id) => device.visibleAs(id) });
  } finally {
    signals.release();
    device.close();
  }
}

/** Those of this process, and an aborted signal as a SIGTERM. */
function signalsOf(signal: AbortSignal | undefined): {
  readonly source: SignalSource;
  release(): void;
} {
  const listeners = new Set<() => void>();
  const stop = () => {
    for (const listener of listeners) listener();
  };
  signal?.addEventListener('abort', stop, { once: true });
  return {
    source: {
      pid: process.pid,
      on(name, listener) {
        if (name === 'SIGTERM') listeners.add(listener);
        if (name === 'SIGTERM' && signal?.aborted) queueMicrotask(listener);
        return process.on(name, listener);
      },
      off(name, listener) {
        listeners.delete(listener);
        return process.off(name, listener);
      },
      kill: (pid, name) => process.kill(pid, name),
    },
    release: () => signal?.removeEventListener('abort', stop),
  };
}
