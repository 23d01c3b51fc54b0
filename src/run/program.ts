import { accessSync, constants, statSync } from 'node:fs';
import { delimiter, resolve } from 'node:path';
import { Failure } from '../failure.js';

/** Says at once that a program is not there, instead of starting a shell that says it later. */
export function checkProgram(
  program: string,
  folder: string,
  environment: Readonly<Record<string, string | undefined>>,
): void {
  // A word with a placeholder in it is only known when it is filled in.
  if (/\{\w+\}/.test(program)) return;
  const places = program.includes('/')
    ? [resolve(folder, program)]
    : (environment['PATH'] ?? '').split(delimiter).map((path) => resolve(folder, path, program));
  if (places.some(isProgram)) return;
  throw new Failure({
    kind: 'input',
    code: 'no-such-program',
    fact: `There is no program "${program}".`,
    next: 'Check its name after the "--", and the PATH.',
    field: 'command',
  });
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

/** Refuses Windows, which has neither process groups nor signals. */
export function checkPlatform(what: string, platform: NodeJS.Platform = process.platform): void {
  if (platform !== 'win32') return;
  throw new Failure({
    kind: 'missing',
    code: 'not-on-windows',
    fact: `"${what}" needs process groups and signals, which Windows does not have.`,
    next: 'Run it inside WSL.',
  });
}
