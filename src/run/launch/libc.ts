import { constants, openSync } from 'node:fs';
import type koffiModule from 'koffi';

/** Two ends of a way for bytes, and the path under which the writing one can be opened again. */
export interface Ends {
  readonly readFd: number;
  readonly writeFd: number;
  readonly path: string;
}

/** The few calls of the C library that Node has no words for. */
export interface Libc {
  /** A pipe as two plain descriptors, so that its reading end can be shared with another process. */
  pipe(): Ends;
  /** A terminal of our own: what is written to `writeFd` can be read from `readFd`, unchanged. */
  terminal(): Ends;
  /** Tells programs on the terminal how large it is. */
  setWindow(fd: number, size: { readonly columns: number; readonly rows: number }): void;
  /** Orphans of our children become ours, so that none is lost. Linux only; elsewhere does nothing. */
  adoptOrphans(): void;
  /** The exit code of a child that Node did not start, once it has ended; takes it off the list. */
  reap(pid: number): number | undefined;
  /**
   * Takes a part out of a file: its room is free, zeros are read there, all else stays where it is.
   * False where that cannot be done.
   */
  punchHole(fd: number, from: number, bytes: number): Promise<boolean>;
  /** Moves bytes between pipes and files inside of the kernel; undefined where it cannot. */
  readonly pipes: KernelPipes | undefined;
}

export interface KernelPipes {
  /** Copies what a pipe holds into another, and leaves it there; waits for some. 0 is its end. */
  copy(fromFd: number, toFd: number, bytes: number): Promise<number>;
  /**
   * Moves bytes out of a pipe to the end of a file: each is in one or the other at any time. Answers how
   * many; negative where it cannot be done. The file must not be open for appending.
   */
  moveToEnd(fromFd: number, toFd: number, bytes: number): Promise<number>;
  /** Takes the lock of a file, unless another has it. */
  tryLock(fd: number): boolean;
  unlock(fd: number): void;
}

/** Enough for every system: Linux has 60 bytes, macOS 72. */
const termiosBytes = 128;
const nameBytes = 128;

/** Constants that differ by system. */
const numbers = {
  linux: {
    closeOnExec: 0o2_000_000,
    noControlling: 0o400,
    setWindow: 0x5414,
    library: 'libc.so.6',
  },
  darwin: {
    closeOnExec: 0x100_0000,
    noControlling: 0x2_0000,
    setWindow: 0x8008_7467,
    library: 'libSystem.B.dylib',
  },
} as const;
const readWrite = 2;
const setChildSubreaper = 36;
const waitNoHang = 1;
/** FALLOC_FL_KEEP_SIZE and FALLOC_FL_PUNCH_HOLE. */
const punchAndKeepSize = 3;
/** LOCK_EX with LOCK_NB, and LOCK_UN. */
const lockOrFail = 6;
const giveUpLock = 8;
/** SEEK_END. */
const fromEnd = 2;

/** Loads them; where that is not possible says why, and the program gets our own terminal as it is. */
export async function loadLibc(
  platform: NodeJS.Platform = process.platform,
): Promise<Libc | { readonly why: string }> {
  if (platform !== 'linux' && platform !== 'darwin') return { why: `there is none on ${platform}` };
  try {
    const koffi = (await import('koffi')).default;
    return bind(koffi, platform);
  } catch (error) {
    return { why: error instanceof Error ? error.message : String(error) };
  }
}

function bind(koffi: typeof koffiModule, platform: 'linux' | 'darwin'): Libc {
  const { closeOnExec, noControlling, setWindow, library } = numbers[platform];
  const libc = koffi.load(library);
  const pipe = libc.func('pipe', 'int', ['void *']);
  const fcntl = libc.func('int fcntl(int, int, ...)');
  const openpt = libc.func('int posix_openpt(int)');
  const grantpt = libc.func('int grantpt(int)');
  const unlockpt = libc.func('int unlockpt(int)');
  const ptsname = libc.func('ptsname_r', 'int', ['int', 'void *', 'size_t']);
  const getAttributes = libc.func('tcgetattr', 'int', ['int', 'void *']);
  const setAttributes = libc.func('tcsetattr', 'int', ['int', 'int', 'void *']);
  const makeRaw = libc.func('cfmakeraw', 'void', ['void *']);
  const ioctl = libc.func('int ioctl(int, ulong, ...)');
  const waitpid = libc.func('waitpid', 'int', ['int', 'void *', 'int']);
  const fallocate =
    platform === 'linux'
      ? libc.func('fallocate', 'int', ['int', 'int', 'int64_t', 'int64_t'])
      : undefined;
  // F_SETFD with FD_CLOEXEC: only the children that are given it may hold it.
  const closeInChildren = (fd: number) => checked('fcntl', fcntl(fd, 2, 'int', 1));
  return {
    pipe() {
      const ends = Buffer.alloc(8);
      checked('pipe', pipe(ends));
      const [readFd, writeFd] = [ends.readInt32LE(0), ends.readInt32LE(4)];
      closeInChildren(readFd);
      closeInChildren(writeFd);
      return { readFd, writeFd, path: `/proc/self/fd/${readFd}` };
    },
    terminal() {
      const readFd = checked('posix_openpt', openpt(readWrite | noControlling | closeOnExec));
      closeInChildren(readFd);
      checked('grantpt', grantpt(readFd));
      checked('unlockpt', unlockpt(readFd));
      const name = Buffer.alloc(nameBytes);
      if (ptsname(readFd, name, nameBytes) !== 0) throw new Error('ptsname_r failed');
      const path = name.toString('utf8', 0, name.indexOf(0));
      const writeFd = openSync(path, constants.O_RDWR | constants.O_NOCTTY);
      // The real terminal behind us turns line ends; doing it twice would change the output.
      const attributes = Buffer.alloc(termiosBytes);
      checked('tcgetattr', getAttributes(writeFd, attributes));
      makeRaw(attributes);
      checked('tcsetattr', setAttributes(writeFd, 0, attributes));
      return { readFd, writeFd, path };
    },
    setWindow(fd, { columns, rows }) {
      const size = Buffer.alloc(8);
      size.writeUInt16LE(Math.min(rows, 65_535), 0);
      size.writeUInt16LE(Math.min(columns, 65_535), 2);
      ioctl(fd, setWindow, 'void *', size);
    },
    adoptOrphans() {
      if (platform !== 'linux') return;
      const prctl = libc.func('int prctl(int, ulong, ulong, ulong, ulong)');
      prctl(setChildSubreaper, 1, 0, 0, 0);
    },
    reap(pid) {
      const status = Buffer.alloc(4);
      if (waitpid(pid, status, waitNoHang) !== pid) return undefined;
      const word = status.readInt32LE(0);
      const signal = word & 0x7f;
      return signal === 0 ? (word >> 8) & 0xff : 128 + signal;
    },
    punchHole(fd, from, bytes) {
      if (fallocate === undefined) return Promise.resolve(false);
      return new Promise((resolve) => {
        // In a thread: a disk that is busy must not hold up the program's output.
        fallocate.async(fd, punchAndKeepSize, from, bytes, (error: unknown, result: number) =>
          resolve(error === null && result === 0),
        );
      });
    },
    pipes: platform === 'linux' ? bindPipes(libc) : undefined,
  };
}

function bindPipes(libc: ReturnType<typeof koffiModule.load>): KernelPipes {
  const tee = libc.func('tee', 'int64_t', ['int', 'int', 'size_t', 'uint']);
  const splice = libc.func('splice', 'int64_t', [
    'int',
    'void *',
    'int',
    'void *',
    'size_t',
    'uint',
  ]);
  const seek = libc.func('int64_t lseek(int, int64_t, int)');
  const flock = libc.func('int flock(int, int)');
  return {
    copy: (fromFd, toFd, bytes) =>
      new Promise((resolve) => {
        tee.async(fromFd, toFd, bytes, 0, counted(resolve));
      }),
    moveToEnd(fromFd, toFd, bytes) {
      if (seek(toFd, 0, fromEnd) < 0) return Promise.resolve(-1);
      return new Promise((resolve) => {
        splice.async(fromFd, null, toFd, null, bytes, 0, counted(resolve));
      });
    },
    tryLock: (fd) => flock(fd, lockOrFail) === 0,
    unlock(fd) {
      flock(fd, giveUpLock);
    },
  };
}

function counted(resolve: (count: number) => void) {
  return (error: unknown, result: number | bigint) => resolve(error === null ? Number(result) : -1);
}

function checked(call: string, result: number): number {
  if (result < 0) throw new Error(`${call} failed`);
  return result;
}
