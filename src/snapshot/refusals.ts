import { Failure } from '../failure.js';
import { MiB } from '../units/bytes.js';

/**
 * Limits of a snapshot. Each number lies well above PyTorch's own, and keeps a hostile file from
 * taking the machine: memory stays in proportion to the bytes read.
 */
export const limits = {
  /** Values waiting to be put into a list or a dict: PyTorch's files need a few thousand. */
  stackEntries: 2 * 1024 * 1024,
  /** Lists and dicts that are open at once: a snapshot needs 7. */
  openMarks: 1000,
  /** A file name, a function's name, a note of the user. */
  stringBytes: MiB,
  /** All different strings together: a job has some thousand names. */
  allStringBytes: 64 * MiB,
  strings: 1024 * 1024,
  /** Python itself stops at 1,000 calls; C++ frames come on top. */
  framesInStack: 8192,
  /** Frames of all different stacks together (4 bytes each). */
  framesOfStacks: 32 * 1024 * 1024,
  /** Places in the pickle's memo: 3 for each event. 2^27 stands for files of 4 GB. */
  memoEntries: 2 ** 27 - 1,
  /** Lists and dicts of the file, events included. */
  objects: 2 ** 27 - 1,
  /** Events of all devices, those that are listed several times included. */
  events: 2 ** 28,
  /** Lists and dicts that are none of a snapshot's records: settings, unknown additions. */
  plainContainers: 100_000,
  plainItems: 8 * 1024 * 1024,
  /** Segments of all devices; a large job has some thousand. */
  segments: 1_000_000,
  streams: 65_535,
  devices: 1024,
  /** Opcodes that only throw away what another made; Python writes none for plain data. */
  discards: 100_000,
  /** An integer in a pickle; PyTorch's have at most 8 bytes, and a sign. */
  integerBytes: 255,
  /** How deep the settings may be nested: PyTorch's are 2 deep. */
  settingsDepth: 8,
} as const;

const recordAgain = 'Write it with torch.cuda.memory._dump_snapshot("file.pickle").';

/** The file is no snapshot, or a damaged one. */
export function refuseSnapshot(why: string, next = recordAgain): never {
  throw new Failure({
    kind: 'input',
    code: 'bad-snapshot',
    fact: `This is not a PyTorch memory snapshot: ${why}.`,
    next,
  });
}

/** The file would have code run. It is never run; nothing of the file is used. */
export function refuseCode(opcode: string, what: string, at: number): never {
  throw new Failure({
    kind: 'input',
    code: 'unsafe-pickle',
    fact: `The pickle would ${what}: opcode ${opcode} at byte ${at}. Nothing was run.`,
    next: 'A memory snapshot holds plain data only; do not open this file in Python.',
  });
}

/** The file ends too early. */
export function refuseCut(bytes: number): never {
  throw new Failure({
    kind: 'input',
    code: 'cut-snapshot',
    fact: `The snapshot ends after ${bytes} bytes, in the middle of its data.`,
    next: 'Copy or record the file again; a killed process leaves half a file.',
  });
}

/** The file passes one of the named limits. */
export function refuseLimit(what: string, most: number | string, at?: number): never {
  const where = at === undefined ? '' : ` (byte ${at})`;
  throw new Failure({
    kind: 'input',
    code: 'snapshot-limit',
    fact: `The snapshot has ${what}, more than the ${most} that are read${where}.`,
    next:
      what === 'events'
        ? 'Record fewer: torch.cuda.memory._record_memory_history(max_entries=1000000).'
        : 'PyTorch writes no such file; record it again.',
  });
}
