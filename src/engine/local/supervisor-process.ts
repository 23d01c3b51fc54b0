import { spawn } from 'node:child_process';
import { closeSync, existsSync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import { makeFolder } from '../../files/make-folder.js';

export interface SupervisorOptions {
  /** The command `plimsoll` as this machine starts it, without arguments. */
  readonly command: readonly string[];
  readonly runId: string;
  /** All that it and the program print is added to it. */
  readonly log: string;
  readonly folder: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
}

/** A supervisor that was started from here. */
export interface SupervisorProcess {
  readonly isAlive: boolean;
  /** Of one that ended; undefined while it lives. */
  readonly exitCode: number | undefined;
}

/**
 * Starts `plimsoll run --attach RUNID` in a session of its own: it outlives us, and no signal that is
 * meant for us reaches it. Which of two supervisors has a run is decided by the run's lock.
 */
export function startSupervisor(options: SupervisorOptions, onEnd: () => void): SupervisorProcess {
  const [program = '', ...words] = options.command;
  makeFolder(dirname(options.log), 0o700);
  const log = openSync(options.log, 'a', 0o600);
  let isAlive = true;
  let exitCode: number | undefined;
  const ended = (code: number | undefined): void => {
    isAlive = false;
    exitCode = code;
    onEnd();
  };
  try {
    const child = spawn(program, [...words, 'run', '--attach', options.runId], {
      // It reads the configuration there; where the folder was removed there is none.
      cwd: existsSync(options.folder) ? options.folder : dirname(options.log),
      env: options.environment,
      stdio: ['ignore', log, log],
      detached: true,
    });
    child.once('error', () => ended(undefined));
    child.once('exit', (code) => ended(code ?? undefined));
    child.unref();
  } finally {
    closeSync(log);
  }
  return {
    get isAlive() {
      return isAlive;
    },
    get exitCode() {
      return exitCode;
    },
  };
}
