import { writeFileSync } from 'node:fs';
import type { Account } from '../types.js';

/** A program that a root supervisor runs as another account. */
export interface BecomeOrder {
  readonly account: Account;
  readonly command: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  readonly folder: string;
  readonly addressSpaceBytes: number | null;
  /** The file to write its pid into, to be limited. */
  readonly cgroupProcs: string | null;
  /** Whether it is killed when the process that started it is gone. */
  readonly endsWithParent?: boolean;
}

/** Beside the command in the build. */
const program = new URL('./become.js', import.meta.url).pathname;

/** For the shells that stay with the job, which are root: nothing of what the job was given. */
const rootPath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

/**
 * The command and the environment to launch instead: they give up root first. Command, variables and
 * folder go through a file of root, so that they stand in no list of processes.
 */
export function becoming(
  file: string,
  order: BecomeOrder,
  /** By which its processes are found again. */
  marks: Readonly<Record<string, string>> = {},
): {
  readonly command: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
} {
  writeFileSync(file, JSON.stringify(order), { mode: 0o600 });
  return {
    command: [process.execPath, program, file],
    environment: { PATH: rootPath, ...marks },
  };
}

/** Of the environment of the server, what is of the machine and not of root. */
const ofMachine = /^(PATH|LANG|LC_\w+|TZ|LD_LIBRARY_PATH|CUDA_\w+|NVIDIA_\w+|ROCM_\w+)$/;

/** Returns the variables that an account's program gets before the job's own. */
export function accountEnvironment(
  own: Readonly<Record<string, string | undefined>>,
  { name, home, shell }: Account,
): Readonly<Record<string, string>> {
  const kept: Record<string, string> = {};
  for (const [key, value] of Object.entries(own)) {
    if (value !== undefined && ofMachine.test(key)) kept[key] = value;
  }
  return {
    PATH: rootPath,
    ...kept,
    HOME: home ?? '/',
    ...(name !== undefined && { USER: name, LOGNAME: name }),
    SHELL: shell ?? '/bin/sh',
  };
}
