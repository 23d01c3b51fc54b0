import { execFile } from 'node:child_process';
import { accessSync, constants, statSync } from 'node:fs';
import { delimiter, join } from 'node:path';

/** It answers within 30 ms on a healthy machine; a sick driver can hold it for minutes. */
const timeLimitMs = 10_000;

/** A row is some 120 bytes: this is room for ten thousand of them. */
const outputLimitBytes = 2 * 1024 * 1024;

/** How a run of the program ended; `exitCode` is undefined when it was stopped or never ran. */
export interface ProgramAnswer {
  readonly stdout: string;
  readonly stderr: string;
  readonly exitCode: number | undefined;
}

/** Where `nvidia-smi` lies on the PATH of `env`, and when it was last changed. */
export function findNvidiaSmi(
  env: NodeJS.ProcessEnv,
  platform: NodeJS.Platform,
): { path: string; changedMs: number } | undefined {
  const name = platform === 'win32' ? 'nvidia-smi.exe' : 'nvidia-smi';
  for (const folder of (env['PATH'] ?? '').split(delimiter)) {
    if (folder === '') continue;
    const path = join(folder, name);
    try {
      accessSync(path, constants.X_OK);
      const stats = statSync(path);
      if (stats.isFile()) return { path, changedMs: stats.mtimeMs };
    } catch {
      // Not in this folder.
    }
  }
  return undefined;
}

/** Runs it; never rejects, whatever the program does. */
export function runNvidiaSmi(
  path: string,
  args: readonly string[],
  limitMs = timeLimitMs,
): Promise<ProgramAnswer> {
  return new Promise((resolve) => {
    execFile(
      path,
      args,
      { timeout: limitMs, killSignal: 'SIGKILL', maxBuffer: outputLimitBytes, windowsHide: true },
      (error, stdout, stderr) => {
        const code = error === null ? 0 : error.code;
        const exitCode = typeof code === 'number' ? code : undefined;
        resolve({ stdout, stderr, exitCode });
      },
    );
  });
}
