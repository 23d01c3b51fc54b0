import { basename, dirname, join } from 'node:path';
import { Failure } from '../../failure.js';

/** A Python program as a person types it, taken apart. */
export interface ProgramCommand {
  /** The Python that runs it. */
  readonly python: string;
  /** Options of Python itself, before the program. */
  readonly flags: readonly string[];
  /** `train.py ...`, or `-m package ...`. */
  readonly program: readonly string[];
}

const pythonName = /^(python|pypy)(\d+(\.\d+)*)?(\.exe)?$/i;
/** Launchers of several processes, and the modules that they run. */
const launchers: readonly { readonly words: readonly string[]; readonly module: string }[] = [
  { words: ['torchrun'], module: 'torch.distributed.run' },
  { words: ['accelerate', 'launch'], module: 'accelerate.commands.launch' },
];
/** Options of Python that take a value in the next word. */
const withValue = new Set(['-W', '-X', '--check-hash-based-pycs']);

/**
 * Takes `python -u train.py --epochs 3` apart, and the same behind `torchrun` or `accelerate launch`.
 * What is no Python program is a `Failure`.
 *
 * @example
 * programCommand(['python', '-m', 'pkg.train']); // { python: 'python', flags: [], program: ['-m', 'pkg.train'] }
 */
export function programCommand(words: readonly string[]): ProgramCommand {
  const [python = '', ...rest] = withoutLauncher(words);
  if (!pythonName.test(basename(python))) throw notPython(python);
  let at = 0;
  while (rest[at]?.startsWith('-') && rest[at] !== '-m' && rest[at] !== '-c' && rest[at] !== '-') {
    at += withValue.has(rest[at] ?? '') ? 2 : 1;
  }
  const program = rest.slice(at);
  const start = program[0];
  if (start === undefined || start === '-c' || start === '-') throw noProgram(start);
  if (start === '-m' && program[1] === undefined) throw noProgram('-m');
  return { python, flags: rest.slice(0, at), program };
}

/** A launcher is a script of the Python beside it. */
function withoutLauncher(words: readonly string[]): readonly string[] {
  const [first = '', ...rest] = words;
  for (const { words: launcher, module } of launchers) {
    const [name, ...more] = launcher;
    if (basename(first) !== name || more.some((word, at) => rest[at] !== word)) continue;
    const python = first.includes('/') ? join(dirname(first), 'python') : 'python';
    return [python, '-m', module, ...rest.slice(more.length)];
  }
  return words;
}

function notPython(word: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'not-python',
    fact: `"${word}" is not a Python program, so it cannot be traced.`,
    next: 'Write plimsoll estimate -- python train.py, or measure it with plimsoll run.',
  });
}

function noProgram(start: string | undefined): Failure {
  const fact =
    start === '-c' || start === '-'
      ? 'A program that is typed in, or read from standard input, cannot be traced.'
      : 'The command names no Python file and no module.';
  return new Failure({
    kind: 'input',
    code: 'no-program',
    fact,
    next: 'Name a file or a module: python train.py, or python -m package.',
  });
}
