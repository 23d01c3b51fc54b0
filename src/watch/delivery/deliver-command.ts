import { type ChildProcess, spawn } from 'node:child_process';
import { killGroup } from '../../device/host/process-list.js';
import { Failure } from '../../failure.js';
import { type Clock, systemClock } from '../../time/clock.js';
import { checkArguments, checkOptions, object, seconds, texts } from '../../units/arguments.js';
import type { Alert } from '../types.js';
import { type AlertSink, createDeliveryQueue } from './deliver.js';

/** What the command says on stderr is kept for the report of its failure, up to this length. */
const keptErrorCharacters = 200;
/** How long after its end the rest of its stderr may take to come in. */
const lastWordsSeconds = 0.2;

export interface CommandDeliveryOptions {
  /** After it the command, and what it started, is killed: 10 s unless told otherwise. */
  readonly timeoutSeconds?: number;
  readonly clock?: Clock;
  readonly env?: NodeJS.ProcessEnv;
}

/**
 * Runs a command for each alert, with the alert as JSON on its stdin and its main parts as
 * `PLIMSOLL_ALERT_*` in its environment. No shell is involved. Two run at a time, 100 may wait.
 *
 * @example
 * watch({ deliver: [deliverToCommand(['notify-send', 'GPU memory'])] });
 */
export function deliverToCommand(
  command: readonly string[],
  options: CommandDeliveryOptions = {},
): AlertSink {
  checkArguments('deliverToCommand', { command }, { command: texts });
  checkOptions('deliverToCommand', options, {
    timeoutSeconds: seconds,
    clock: object,
    env: object,
  });
  const [program, ...args] = command;
  if (!program) {
    throw new Failure({
      kind: 'input',
      code: 'bad-alert-command',
      fact: 'The alert command is empty.',
      next: 'Give the program and its arguments as a list: ["notify-send", "GPU memory"].',
    });
  }
  const clock = options.clock ?? systemClock;
  const timeoutSeconds = options.timeoutSeconds ?? 10;
  return createDeliveryQueue({
    name: 'The alert command',
    concurrency: 2,
    capacity: 100,
    work: async (alert, signal) => {
      const child = spawn(program, args, {
        shell: false,
        // A group of its own, so that what it started can be ended with it.
        detached: process.platform !== 'win32',
        stdio: ['pipe', 'ignore', 'pipe'],
        env: { ...(options.env ?? process.env), ...alertEnvironment(alert) },
        windowsHide: true,
      });
      const over = new AbortController();
      const kill = (): void => killGroup(child);
      signal.addEventListener('abort', kill, { once: true });
      let timedOut = false;
      const limitTime = async (): Promise<void> => {
        await clock.waitUntil(clock.seconds() + timeoutSeconds, over.signal);
        timedOut = !over.signal.aborted;
        if (timedOut) kill();
      };
      void limitTime();
      try {
        const end = await run(child, JSON.stringify(alert), clock);
        if (timedOut) throw new Error(`it took longer than ${timeoutSeconds} s and was killed.`);
        if (end !== undefined) throw new Error(end);
      } finally {
        over.abort();
        signal.removeEventListener('abort', kill);
      }
    },
  });
}

/** Resolves when the command has ended, with what is wrong about its end. */
function run(child: ChildProcess, input: string, clock: Clock): Promise<string | undefined> {
  return new Promise((resolve, reject) => {
    let said = '';
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      said = (said + text).slice(-keptErrorCharacters);
    });
    // A command that does not read its stdin closes it under our hands; that is its right.
    child.stdin?.on('error', () => {});
    child.stdin?.end(`${input}\n`);
    child.once('error', reject);
    child.once('exit', (code, signal) => {
      const end = (): void => {
        child.stderr?.destroy();
        if (code === 0) return resolve(undefined);
        const how = signal ? `it was ended by ${signal}` : `it exited with ${code}`;
        resolve(said.trim() === '' ? `${how}.` : `${how}: ${said.trim()}`);
      };
      // Something it left behind may hold stderr open, and with it this process: wait for the
      // last words only so long.
      const closed = new AbortController();
      child.once('close', () => closed.abort());
      void clock.waitUntil(clock.seconds() + lastWordsSeconds, closed.signal).then(end);
    });
  });
}

/** The main parts of an alert for a script that does not read JSON. */
function alertEnvironment(alert: Alert): Record<string, string> {
  const parts = {
    PLIMSOLL_ALERT_KIND: alert.kind,
    PLIMSOLL_ALERT_STATE: alert.state,
    PLIMSOLL_ALERT_SEVERITY: alert.severity,
    PLIMSOLL_ALERT_DEVICE: alert.deviceId,
    PLIMSOLL_ALERT_PID: String(alert.pid ?? ''),
    PLIMSOLL_ALERT_TIME: new Date(alert.epochMs).toISOString(),
    PLIMSOLL_ALERT_MESSAGE: alert.message,
    PLIMSOLL_ALERT_PROVENANCE: alert.provenance,
  };
  // No environment can hold a NUL, and a name from outside might.
  return Object.fromEntries(
    Object.entries(parts).map(([name, text]) => [name, text.replaceAll('\0', ' ')]),
  );
}
