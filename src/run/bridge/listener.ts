import { readlinkSync } from 'node:fs';
import { join } from 'node:path';
import { listKernelFolder, listPids, readKernelFile } from '../../device/kernel-files.js';

/** A machine with many sockets has a long list. */
const maxBytes = 8 * 1024 * 1024;
/** SO_ACCEPTCON. */
const listening = '00010000';

/** The process that listens on a socket in a file; undefined where none is seen. Linux only. */
export function listenerOf(procRoot: string, path: string): number | undefined {
  const inode = listeningInode(procRoot, path);
  if (inode === undefined) return undefined;
  return listPids(procRoot).find((pid) => {
    const folder = join(procRoot, String(pid), 'fd');
    return listKernelFolder(folder).some((fd) => linkOf(join(folder, fd)) === `socket:[${inode}]`);
  });
}

/** `Num RefCount Protocol Flags Type St Inode Path`, one line a socket. */
function listeningInode(procRoot: string, path: string): string | undefined {
  const text = readKernelFile(join(procRoot, 'net', 'unix'), maxBytes) ?? '';
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
