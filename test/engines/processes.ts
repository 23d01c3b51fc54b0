import { execFileSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { root } from '../support/project-files.js';

/** A process of this machine, as far as it can be read. */
interface SeenProcess {
  readonly pid: number;
  readonly parent: number;
  /** Its words, with spaces between them. */
  readonly command: string;
}

export function seenProcesses(): readonly SeenProcess[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      try {
        const status = readFileSync(`/proc/${name}/status`, 'utf8');
        // One that its parent has not asked for stays in the table when it is dead.
        if (/^State:\s+Z/m.test(status)) return [];
        const command = readFileSync(`/proc/${name}/cmdline`, 'utf8').replaceAll('\0', ' ').trim();
        const parent = Number(/^PPid:\s+(\d+)/m.exec(status)?.[1] ?? 0);
        return [{ pid: Number(name), parent, command }];
      } catch {
        return [];
      }
    });
}

/** Those that were started with this in their environment. */
export function processesWith(variable: string): readonly SeenProcess[] {
  return seenProcesses().filter(({ pid }) => {
    if (pid === process.pid) return false;
    try {
      return readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0').includes(variable);
    } catch {
      return false;
    }
  });
}

/** Those that name a folder, or have a file below it open. */
export function processesOf(folder: string): readonly SeenProcess[] {
  return seenProcesses().filter(({ pid, command }) => {
    if (pid === process.pid) return false;
    if (command.includes(folder)) return true;
    try {
      const files = readdirSync(`/proc/${pid}/fd`);
      return files.some((file) => readlinkSync(`/proc/${pid}/fd/${file}`).startsWith(folder));
    } catch {
      return false;
    }
  });
}

/** SIGKILL to each of them. */
export function killAll(processes: readonly SeenProcess[]): void {
  for (const { pid } of processes) {
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // It has ended.
    }
  }
}

/** SIGKILL to those that are found, until there are none: one may start another while it is looked for. */
export function killUntilNone(find: () => readonly SeenProcess[]): void {
  for (let left = find(); left.length > 0; left = find()) killAll(left);
}

/** These and all that they started. */
export function withChildren(processes: readonly SeenProcess[]): readonly SeenProcess[] {
  const all = seenProcesses();
  const found = [...processes];
  // Grows while it is read.
  for (const { pid } of found) found.push(...all.filter(({ parent }) => parent === pid));
  return found;
}

/** Ray gives the ports below to its workers. */
const lowest = 20_000;
const usualFirstEphemeral = 32_768;

/**
 * Ports that are free on every address. They lie outside of the ephemeral range: the system gives a port of
 * that range to any program that connects, so it could be taken before our service listens on it.
 */
export async function freePorts(count: number): Promise<readonly number[]> {
  const found = new Set<number>();
  const highest = Math.max(lowest + 10_000, firstEphemeral());
  while (found.size < count) {
    const port = lowest + Math.floor(Math.random() * (highest - lowest));
    if (await isFree(port)) found.add(port);
  }
  return [...found];
}

function firstEphemeral(): number {
  try {
    return Number.parseInt(readFileSync('/proc/sys/net/ipv4/ip_local_port_range', 'utf8'), 10);
  } catch {
    return usualFirstEphemeral;
  }
}

function isFree(port: number): Promise<boolean> {
  const server = createServer();
  return new Promise((resolve) => {
    server.once('error', () => resolve(false));
    server.listen(port, '0.0.0.0', () => server.close(() => resolve(true)));
  });
}

/** A program that takes so much of the host's memory, and prints what it has at the end. */
export function takingMemory(bytes: number): readonly string[] {
  const program = `
import sys, time
held = []
for _ in range(int(sys.argv[1]) // 4194304):
    held.append(bytearray(b"x") * 4194304)
print("took", len(held) * 4194304)
# Long enough for the supervisor to see what it has.
time.sleep(2)
`;
  return ['python3', '-c', program, String(bytes)];
}

/** What is unpacked, and where. */
export interface DebianPackages {
  /** A folder of build/engines. */
  readonly folder: string;
  /** What these need besides is asked of apt. */
  readonly wanted: readonly string[];
  /** A file that is there once all is unpacked. */
  readonly proof: string;
}

/**
 * Packages of Debian, unpacked into a folder of the project's build: nothing is installed. Answers that
 * folder; an error where the packages cannot be had.
 */
export function debianPackages({ folder: name, wanted, proof }: DebianPackages): string {
  const folder = join(root, 'build/engines', name);
  if (existsSync(join(folder, proof))) return folder;
  const work = `${folder}.making`;
  rmSync(work, { recursive: true, force: true });
  mkdirSync(join(work, 'packages'), { recursive: true });
  try {
    // A new machine has no lists of packages; old lists name versions that the mirror has no more.
    apt(['update'], work);
  } catch (error) {
    // Another source of this machine may be the one that fails.
    if (missingPackages(wanted) === undefined) throw error;
  }
  const names = [...new Set([...wanted, ...(missingPackages(wanted) ?? [])])];
  apt(['download', ...names], join(work, 'packages'));
  for (const file of readdirSync(join(work, 'packages'))) {
    execFileSync('dpkg', ['-x', join(work, 'packages', file), work]);
  }
  renameSync(work, folder);
  return folder;
}

/** What apt would install for them; undefined where it knows no such package. */
function missingPackages(wanted: readonly string[]): readonly string[] | undefined {
  try {
    const words = ['install', '--simulate', '--no-install-recommends', ...wanted];
    const plan = execFileSync('apt-get', words, {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    return [...plan.matchAll(/^Inst (\S+)/gm)].map(([, name = '']) => name);
  } catch {
    return undefined;
  }
}

function apt(words: readonly string[], folder: string): void {
  const patient = ['-qq', '-o', 'Acquire::Retries=5'];
  try {
    execFileSync('apt-get', [...patient, ...words], {
      cwd: folder,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new Error(`The packages cannot be had (apt-get ${words.join(' ')}): ${why}`, {
      cause: error,
    });
  }
}
