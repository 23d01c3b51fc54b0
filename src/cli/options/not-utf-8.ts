import { isUtf8 } from 'node:buffer';
import { readFileSync, readlinkSync } from 'node:fs';
import { Failure } from '../../failure.js';
import type { CliIo } from '../io.js';

/** Node puts this in the place of bytes that are no text; a text may hold it as well. */
const replaced = '\uFFFD';
/** Variables that tell every command of ours its home and its settings. */
const ourOwn = /^(HOME|PLIMSOLL_\w+)$/;

/** The bytes behind what Node shows of this process; undefined where the system does not tell. */
export interface ProcessBytes {
  readonly words: () => Buffer | undefined;
  readonly variables: () => Buffer | undefined;
  readonly folder: () => Buffer | undefined;
}

const processBytes: ProcessBytes = {
  words: () => ifReadable(() => readFileSync('/proc/self/cmdline')),
  variables: () => ifReadable(() => readFileSync('/proc/self/environ')),
  folder: () => ifReadable(() => readlinkSync('/proc/self/cwd', { encoding: 'buffer' })),
};

/** Refuses arguments, a folder and variables of ours that would reach files and programs changed. */
export function checkText(
  argv: readonly string[],
  io: Pick<CliIo, 'environment' | 'folder'>,
  bytes: ProcessBytes = processBytes,
): void {
  const isOdd = argv.some((word) => word.includes(replaced));
  const odd = isOdd ? split(bytes.words()).find((word) => !isUtf8(word)) : undefined;
  if (odd !== undefined) {
    throw notUtf8(`The argument ${shown(odd)}`, 'Rename the file, or write the argument in UTF-8.');
  }
  const folder = ifReadable(() => io.folder)?.includes(replaced) ? bytes.folder() : undefined;
  if (folder !== undefined && !isUtf8(folder)) {
    throw notUtf8(`The current folder ${shown(folder)}`, 'Rename it, or start in another one.');
  }
  checkVariables(io.environment, (name) => ourOwn.test(name), bytes);
}

/** Refuses variables that a program would get with other bytes than they have. */
export function checkVariables(
  environment: CliIo['environment'],
  isPassedOn: (name: string) => boolean,
  bytes: ProcessBytes = processBytes,
): void {
  const suspects = Object.entries(environment).flatMap(([name, value]) =>
    isPassedOn(name) && `${name}${value}`.includes(replaced) ? name : [],
  );
  if (suspects.length === 0) return;
  const odd = split(bytes.variables()).filter((one) => !isUtf8(one));
  const names = new Set(odd.map((one) => one.toString('utf8').split('=', 1)[0]));
  const name = suspects.find((one) => names.has(one));
  if (name === undefined) return;
  throw notUtf8(
    `The value of the variable ${shown(Buffer.from(name))}`,
    `Set it to text in UTF-8, or leave it out: env -u ${shown(Buffer.from(name))} plimsoll ...`,
  );
}

function notUtf8(what: string, next: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'not-utf-8',
    fact: `${what} is not UTF-8. Its bytes would be changed on the way.`,
    next,
  });
}

function split(list: Buffer | undefined): readonly Buffer[] {
  const bytes = list ?? Buffer.alloc(0);
  const parts: Buffer[] = [];
  for (let at = 0; at < bytes.length; ) {
    const end = bytes.indexOf(0, at);
    parts.push(bytes.subarray(at, end === -1 ? bytes.length : end));
    at = end === -1 ? bytes.length : end + 1;
  }
  return parts;
}

/** Enough to recognise it. */
const shownBytes = 80;

/** With each byte that is no plain letter as `\\xFF`. */
function shown(bytes: Buffer): string {
  const text = Array.from(bytes.subarray(0, shownBytes), (byte) =>
    byte >= 0x20 && byte < 0x7f
      ? String.fromCharCode(byte)
      : `\\x${byte.toString(16).toUpperCase().padStart(2, '0')}`,
  );
  return `"${text.join('')}${bytes.length > shownBytes ? '...' : ''}"`;
}

function ifReadable<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}
