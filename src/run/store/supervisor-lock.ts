import { linkSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { listKernelFolder, listPids, readKernelFile } from '../../device/kernel-files.js';
import { makeFolder } from '../../files/folders.js';
import { readOwnDocument } from '../../files/own-file.js';
import { readProcess } from '../processes/process-table.js';
import { readPlan } from './run-plan.js';

/** The supervisor of a run. Each has the next number, and only one can have it. */
interface Holder {
  readonly pid: number;
  /** When the process began, in ticks: a later process may have the same pid. */
  readonly started: number;
}

const name = /^supervisor-(\d{1,6})$/;
const claimName = /^claim-(\d{1,10})-(\d{1,16})$/;
/** Some 40 bytes are written. */
const maxBytes = 4096;

/** Takes over a run, unless one that lives supervises it; its pid is answered then. */
export function takeRun(
  runFolder: string,
  procRoot: string,
  pid: number = process.pid,
): { readonly heldBy: number | undefined } {
  makeFolder(runFolder, 0o700);
  for (;;) {
    const { number, holder } = latestHolder(runFolder, procRoot);
    if (holder !== undefined && holder.pid !== pid && lives(holder, procRoot)) {
      return { heldBy: holder.pid };
    }
    const started = readProcess(procRoot, pid)?.started ?? 0;
    // Linked under its name when it is whole, and only if the name is free: of two that come at once
    // one is refused and looks again, and half a file is not taken for a holder that is dead.
    const claim = join(runFolder, `claim-${pid}-${started}`);
    try {
      writeFileSync(claim, JSON.stringify({ schema: 1, pid, started }), { mode: 0o600 });
      linkSync(claim, join(runFolder, `supervisor-${number + 1}`));
    } catch (error) {
      if (error instanceof Error && 'code' in error && error.code === 'EEXIST') continue;
      throw error;
    } finally {
      // On a full disk, too, where it is empty.
      rmSync(claim, { force: true });
    }
    if (number > 0)
      rmSync(join(runFolder, `supervisor-${number}`), { recursive: true, force: true });
    removeClaimsOfTheDead(runFolder, procRoot);
    return { heldBy: undefined };
  }
}

/** A supervisor that was killed between its claim and the link leaves the claim behind. */
function removeClaimsOfTheDead(runFolder: string, procRoot: string): void {
  for (const file of listKernelFolder(runFolder)) {
    const [, pid, started] = claimName.exec(file) ?? [];
    if (pid === undefined || lives({ pid: Number(pid), started: Number(started) }, procRoot))
      continue;
    rmSync(join(runFolder, file), { recursive: true, force: true });
  }
}

/** Whether somebody who lives supervises a run. */
export function isSupervised(runFolder: string, procRoot: string): boolean {
  return supervisorOf(runFolder, procRoot) !== undefined;
}

/** The process that supervises a run; undefined where none lives. */
export function supervisorOf(runFolder: string, procRoot: string): number | undefined {
  const { holder } = latestHolder(runFolder, procRoot);
  return holder !== undefined && lives(holder, procRoot) ? holder.pid : undefined;
}

function latestHolder(
  runFolder: string,
  procRoot: string,
): { number: number; holder: Holder | undefined } {
  let number = 0;
  for (const file of listKernelFolder(runFolder))
    number = Math.max(number, Number(name.exec(file)?.[1] ?? 0));
  if (number === 0) return { number, holder: undefined };
  const path = join(runFolder, `supervisor-${number}`);
  const found = readOwnDocument(path, { schema: 1, maxBytes }) ?? {};
  const { pid, started } = found;
  if (isCount(pid) && isCount(started)) return { number, holder: { pid, started } };
  return { number, holder: listeningHolder(runFolder, procRoot) };
}

/** A damaged file names no process: the supervisor of a run listens on its socket. */
function listeningHolder(runFolder: string, procRoot: string): Holder | undefined {
  const bridge = readPlan(runFolder)?.bridge;
  const pid = bridge === undefined ? undefined : listenerOf(procRoot, bridge);
  const entry = pid === undefined ? undefined : readProcess(procRoot, pid);
  return entry && { pid: entry.pid, started: entry.started };
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 0;
}

function lives({ pid, started }: Holder, procRoot: string): boolean {
  const now = readProcess(procRoot, pid);
  if (now !== undefined) return now.started === started && now.state !== 'Z';
  if (process.platform === 'linux') return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** A machine with many sockets has a long list. */
const maxPathBytes = 8 * 1024 * 1024;
/** SO_ACCEPTCON. */
const listening = '00010000';

/** The process that listens on a socket in a file; undefined where none is seen. Linux only. */
function listenerOf(procRoot: string, path: string): number | undefined {
  const inode = listeningInode(procRoot, path);
  if (inode === undefined) return undefined;
  return listPids(procRoot).find((pid) => {
    const folder = join(procRoot, String(pid), 'fd');
    return listKernelFolder(folder).some((fd) => linkOf(join(folder, fd)) === `socket:[${inode}]`);
  });
}

/** `Num RefCount Protocol Flags Type St Inode Path`, one line a socket. */
function listeningInode(procRoot: string, path: string): string | undefined {
  const text = readKernelFile(join(procRoot, 'net', 'unix'), maxPathBytes) ?? '';
  for (const line of text.split('\n')) {
    if (!line.endsWith(` ${path}`)) continue;
    const [, , , flags, , , inode] = line.split(/ +/);
    if (flags === listening) return inode;
  }
  return undefined;
}

function linkOf(path: string): string | undefined {
  try {
    return readlinkSync(path);
  } catch {
    return undefined;
  }
}
