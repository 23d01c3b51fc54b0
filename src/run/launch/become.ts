// Becomes a program of another Unix account. A supervisor that is root starts it, in the place of the
// program: variables of that account reach no process that is still root.
import {
  accessSync,
  constants,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { delimiter, resolve } from 'node:path';
import koffi from 'koffi';
import type { BecomeOrder } from './become-order.js';

const notExecutable = 126;
const notFound = 127;
const brokenPipe = 13;
const addressSpace = 9;
/** PR_SET_PDEATHSIG. */
const setEndSignal = 1;
const killSignal = 9;
/** F_SETFD. */
const setFlags = 2;
/** ENOEXEC: a script without a first line that names its shell. */
const noFormat = 8;

function fail(words: string, exitCode = notExecutable): never {
  writeSync(2, `plimsoll: ${words}\n`);
  process.exit(exitCode);
}

/** For good: what cannot be given up is not started. */
function giveUpRoot(
  { uid, gid, name }: BecomeOrder['account'],
  initGroups: (name: string, gid: number) => number,
): void {
  if (uid === 0) fail('this program would have run as root.');
  if (name === undefined) process.setgroups?.([gid]);
  else if (initGroups(name, gid) !== 0) fail(`the groups of ${name} could not be set.`);
  process.setgid?.(gid);
  process.setuid?.(uid);
  const now = [process.getuid?.(), process.geteuid?.(), process.getgid?.(), process.getegid?.()];
  let isRootAgain = true;
  try {
    process.setuid?.(0);
  } catch {
    isRootAgain = false;
  }
  if (isRootAgain || now.join(' ') !== [uid, uid, gid, gid].join(' ')) {
    fail(`root could not be given up for uid ${uid}.`);
  }
}

function programAt(word: string, path: string | undefined): string {
  if (word.includes('/')) return word;
  const places = (path ?? '').split(delimiter).map((folder) => resolve(folder, word));
  const found = places.find((place) => {
    try {
      accessSync(place, constants.X_OK);
      return statSync(place).isFile();
    } catch {
      return false;
    }
  });
  return found ?? fail(`there is no program "${word}" for this account.`, notFound);
}

function become(file: string): void {
  const libc = koffi.load('libc.so.6');
  const execve = libc.func('int execve(const char *, const char **, const char **)');
  const signal = libc.func('void *signal(int, void *)');
  const setLimit = libc.func('int setrlimit(int, void *)');
  const fcntl = libc.func('int fcntl(int, int, ...)');
  const prctl = libc.func('int prctl(int, ...)');
  const order: BecomeOrder = JSON.parse(readFileSync(file, 'utf8'));
  rmSync(file);
  if (order.cgroupProcs !== null) writeFileSync(order.cgroupProcs, String(process.pid));
  giveUpRoot(order.account, libc.func('int initgroups(const char *, uint32_t)'));
  // Only now: giving up root takes it back.
  if (order.endsWithParent === true) prctl(setEndSignal, 'unsigned long', killSignal);
  try {
    process.chdir(order.folder);
  } catch (error) {
    fail(`this account cannot enter ${order.folder}: ${String(error)}`);
  }
  const [word = '', ...rest] = order.command;
  const program = programAt(word, order.environment['PATH']);
  const environment = Object.entries(order.environment).map(([name, value]) => `${name}=${value}`);
  // Node closes them for the program that follows.
  for (const fd of [0, 1, 2]) fcntl(fd, setFlags, 'int', 0);
  // Node ignores it; a program expects it to be as usual.
  signal(brokenPipe, null);
  if (order.addressSpaceBytes !== null) {
    const limit = Buffer.alloc(16);
    limit.writeBigUInt64LE(BigInt(order.addressSpaceBytes), 0);
    limit.writeBigUInt64LE(BigInt(order.addressSpaceBytes), 8);
    setLimit(addressSpace, limit);
  }
  execve(program, [word, ...rest, null], [...environment, null]);
  if (koffi.errno() === noFormat) {
    execve('/bin/sh', ['sh', program, ...rest, null], [...environment, null]);
  }
  fail(`${word} cannot be executed by this account.`);
}

become(process.argv[2] ?? '');
