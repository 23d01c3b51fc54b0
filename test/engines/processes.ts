import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

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
