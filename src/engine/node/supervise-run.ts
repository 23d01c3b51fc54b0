import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { isKnown } from '../../units/known.js';
import type { KeptOrder } from '../job-folder.js';

/** What `plimsoll run` on a node is started with. */
export interface SupervisedRun {
  readonly order: KeptOrder;
  /** Without the CUDA context. */
  readonly limitBytes: number | 'none';
  readonly report: string;
  readonly home: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly signals: Signals;
}

/** After so many ends without a report the supervisor cannot work here. */
const maxTries = 20;
/** All processes of a run on a node have the folder of the run in this variable. */
export const nodeRunVariable = 'PLIMSOLL_NODE_RUN';
/** As a shell says that a program was killed. */
const supervisorKilled = 137;

/**
 * Until there is a report: a supervisor that was killed is followed by another one. Answers the exit
 * code of the last one.
 */
export async function superviseRun(run: SupervisedRun): Promise<number> {
  const { order, limitBytes, report, home, environment, signals } = run;
  const state = ['--state', home];
  const options = [
    '--report',
    report,
    '--report',
    report.replace(/json$/, 'html'),
    ...(limitBytes === 'none' ? [] : ['--allocator-memory', String(limitBytes)]),
    ...(order.environmentChanges === undefined
      ? []
      : ['--env-changes', JSON.stringify(order.environmentChanges)]),
    ...(isKnown(order.batch) ? ['--batch-size', String(order.batch)] : []),
  ];
  for (let tries = 0; tries < maxTries && !existsSync(report); tries++) {
    const begun = existsSync(join(home, 'runs')) && readdirSync(join(home, 'runs')).length > 0;
    const words = begun
      ? ['run', '--attach', ...state]
      : ['run', ...options, ...state, '--', ...order.command];
    const [program = '', ...args] = [...order.plimsoll, ...words];
    // The folder of the run is removed with it: what the program asks to be kept goes where the person keeps it.
    const kept = dirname(order.measured);
    const env = { ...environment, PLIMSOLL_HOME: kept, [nodeRunVariable]: home };
    const child = spawn(program, args, { stdio: 'inherit', env, cwd: order.cwd });
    const code = await endOf(child, signals);
    // An exit code of its own without a report: it refused to start, and would again.
    if (code !== undefined) return code;
  }
  return supervisorKilled;
}

/** Its exit code; undefined where a signal ended it. */
function endOf(child: ChildProcess, signals: Signals): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    signals.forwardTo(child);
    child.once('error', reject);
    child.once('exit', (code) => resolve(code ?? undefined));
  });
}

/** Journals and sockets of the run lie on the node itself: a shared file system may have no sockets. */
export function localHome(
  environment: Readonly<Record<string, string | undefined>>,
  name: string,
): string {
  const uid = process.getuid?.() ?? 0;
  const path = join(environment['TMPDIR'] || tmpdir(), `plimsoll-${uid}-${name}`);
  try {
    mkdirSync(path, { mode: 0o700 });
  } catch (error) {
    if (!existsSync(path) || statSync(path).uid !== uid) throw error;
  }
  return path;
}

/** Requests to end that reach this process. */
interface Signals {
  readonly wasAsked: boolean;
  forwardTo(child: ChildProcess): void;
  release(): void;
}

/** A cluster signals all processes of a job; ours waits for its supervisor to end the program. */
export function heedSignals(): Signals {
  let wasAsked = false;
  let current: ChildProcess | undefined;
  const heed = () => {
    wasAsked = true;
    current?.kill('SIGTERM');
  };
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, heed);
  return {
    get wasAsked() {
      return wasAsked;
    },
    forwardTo(child) {
      current = child;
      if (wasAsked) child.kill('SIGTERM');
    },
    release() {
      for (const signal of ['SIGTERM', 'SIGINT'] as const) process.off(signal, heed);
    },
  };
}
