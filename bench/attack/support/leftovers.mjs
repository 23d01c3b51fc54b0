// What an attack must not leave behind: processes, cgroups, sockets, half-written files.
import { readdirSync, readFileSync, rmdirSync } from 'node:fs';
import { join } from 'node:path';

/** All living processes that were started for a place: it stands in their environment or arguments. */
export function processesOf(folder) {
  return pids().filter((pid) => pid !== process.pid && isMarked(pid, folder));
}

export function isMarked(pid, folder) {
  return ['environ', 'cmdline'].some((name) => readProc(pid, name).includes(folder));
}

function pids() {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number);
}

/** Empty for one that is gone, that ended, or that is not ours. */
export function readProc(pid, name) {
  try {
    return readFileSync(`/proc/${pid}/${name}`, 'latin1');
  } catch {
    return '';
  }
}

/** The children of a process, as the kernel lists them. */
export function childrenOf(pid) {
  return readProc(pid, `task/${pid}/children`).trim().split(' ').filter(Boolean).map(Number);
}

export function openFilesOf(pid) {
  try {
    return readdirSync(`/proc/${pid}/fd`).length;
  } catch {
    return 0;
  }
}

/** Limits of this home's runs, wherever they were made below our own cgroup or beside it. */
export function cgroupsOf(home) {
  const ids = namesIn(join(home, 'runs'));
  return cgroupFolders().flatMap((folder) =>
    namesIn(folder)
      .filter((name) => name.startsWith('plimsoll-run-') && ids.some((id) => name.includes(id)))
      .map((name) => join(folder, name)),
  );
}

export function removeCgroups(folders) {
  for (const folder of folders) {
    try {
      rmdirSync(folder);
    } catch {
      // Removed by its supervisor.
    }
  }
}

function cgroupFolders() {
  const folders = readProc('self', 'cgroup')
    .split('\n')
    .flatMap((line) => {
      const [, kinds = '', path = ''] = line.split(':');
      if (kinds.split(',').includes('memory')) return [join('/sys/fs/cgroup/memory', path)];
      return kinds === '' && path !== '' ? [join('/sys/fs/cgroup', path)] : [];
    });
  return folders.flatMap((folder) => [folder, join(folder, '..')]);
}

/** Files of a home, with no server and no job left, that only a server or a job may have. */
export function strayFiles(home) {
  const patterns = [/\.tmp$/, /\.new(-\d+)?$/, /(^|\/)claim-/, /\.sock$/, /-(wal|shm|journal)$/];
  return filesBelow(home).filter((path) => patterns.some((pattern) => pattern.test(path)));
}

function filesBelow(folder) {
  try {
    return readdirSync(folder, { recursive: true }).map(String);
  } catch {
    return [];
  }
}

function namesIn(folder) {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}
