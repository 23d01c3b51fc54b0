import { Failure } from '../failure.js';

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
