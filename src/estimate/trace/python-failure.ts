import { Failure } from '../../failure.js';
import { capitalized } from '../../units/words.js';
import { callWording, type EstimateSetting, type Wording } from '../wording.js';
import { signalOf, signalWords } from './crash-report.js';

/** How a Python process came to its end. */
export type PythonEnd =
  | { readonly notStarted: string }
  | { readonly timedOutSeconds: number }
  | {
      readonly code: number | null;
      readonly signal: NodeJS.Signals | null;
      readonly stdout: string;
      readonly stderr: string;
      /** The line of the program that ran when it crashed, where that is known. */
      readonly crashedAt?: string | undefined;
    };

/** A person reads it in one line. */
const shownCharacters = 300;
const missingPackage = 3;
const noModuleFound = /No module named '?plimsoll/;

/**
 * Returns the error of Python as a failure; undefined if there is none.
 *
 * @example
 * pythonFailure('python3', { notStarted: 'spawn python3 ENOENT' }, false)?.code; // 'python-missing'
 */
export function pythonFailure(
  program: string,
  end: PythonEnd,
  leftTrace: boolean,
  wording: Wording = callWording,
): Failure | undefined {
  if ('notStarted' in end) {
    return new Failure({
      kind: 'missing',
      code: 'python-missing',
      fact: `An estimate is traced in Python, and "${program}" could not be started (${end.notStarted}).`,
      next: `Install Python with torch and transformers, or ${wording.anotherPython}.`,
    });
  }
  if ('timedOutSeconds' in end) {
    return new Failure({
      kind: 'job',
      code: 'trace-too-slow',
      fact: `The trace took longer than ${end.timedOutSeconds} s and was ended.`,
      next: 'Try a smaller batch.',
    });
  }
  if (end.code === 0 && leftTrace) return undefined;
  return reportedFailure(end.code, end.stdout, wording) ?? crashed(program, end);
}

/** The error that the Python part wrote as one JSON line, last of all. */
function reportedFailure(
  exitCode: number | null,
  stdout: string,
  wording: Wording,
): Failure | undefined {
  const line = stdout.trimEnd().split('\n').at(-1) ?? '';
  const reported: unknown = Reflect.get(Object(parsed(line)), 'error');
  if (typeof reported !== 'object' || reported === null) return undefined;
  const text = (key: string) => {
    const value: unknown = Reflect.get(reported, key);
    return typeof value === 'string' ? value.replaceAll(/\s+/g, ' ').trim() : '';
  };
  const where = text('where');
  const code = /^[a-z][a-z0-9-]{0,60}$/.test(text('code')) ? text('code') : 'trace-failed';
  return new Failure({
    kind: exitCode === missingPackage ? 'missing' : 'input',
    code,
    fact: sentence(where === '' ? text('fact') : `${text('fact')} (${where})`),
    next: pythonNextStep(code, wording) ?? sentence(text('next')),
  });
}

function crashed(program: string, end: Extract<PythonEnd, { stderr: string }>): Failure {
  const last = end.stderr.trimEnd().split('\n').at(-1)?.trim().slice(0, shownCharacters) ?? '';
  if (noModuleFound.test(last)) {
    return new Failure({
      kind: 'missing',
      code: 'python-part-missing',
      fact: 'The folder python/plimsoll, which comes with plimsoll, is missing.',
      next: 'Install plimsoll again.',
    });
  }
  const signal = signalOf(end);
  const { how, next } =
    signal === undefined
      ? {
          how: `ended with exit code ${end.code} and`,
          next: 'Run the model in Python directly to see the error.',
        }
      : signalWords(signal, end.crashedAt);
  return new Failure({
    kind: 'job',
    code: 'trace-crashed',
    fact: `"${program}" ${how} left no trace${last === '' ? '.' : `: ${last}`}`,
    next,
  });
}

/** With a capital and a full stop; a command keeps its small letter. */
function sentence(text: string): string {
  if (text === '') return '';
  if (text.startsWith('pip ')) return sentence(`run ${text}`);
  const start = capitalized(text);
  return /[.!?]$/.test(start) ? start : `${start}.`;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

type NextStep = (wording: Wording) => string;

/** The Python part knows its own arguments alone; where a next step names a setting, it is here. */
const nextSteps: ReadonlyMap<string, NextStep> = new Map<string, NextStep>([
  [
    'op-not-traced',
    ({ example }) => `Take ${example('method', 'formula')}, or measure it on a GPU.`,
  ],
  ['lora-refused', leaveOut('lora')],
  ['no-checkpointing', leaveOut('checkpointing')],
  ['quantization-on-host', leaveOut('quantization')],
  [
    'quantization-by-memory',
    ({ example }) => `Take ${example('quantization', 'int4_double')}, which keeps all of it there.`,
  ],
  ['quantization-not-here', leaveOut('quantization')],
  [
    'quantized-not-trained',
    ({ example }) => `Add ${example('lora', 16)}, or take ${example('mode', 'infer')}.`,
  ],
  ['no-target', leaveOut('targetSeq')],
  ['nothing-to-train', ({ example }) => `Take ${example('mode', 'infer')}.`],
  [
    'no-loss',
    ({ name }) =>
      `Name a class with a head in the config's architectures, or write a ${name('script')}.`,
  ],
  [
    'inputs-unknown',
    ({ name }) =>
      `If it is a part of a model, name the config of the whole. Else write a workload() for ${name('script')}.`,
  ],
  ['no-tensor-plan', ({ example }) => `Take ${example('parallel', 'fsdp2')}.`],
  [
    'no-tensor-style',
    ({ example }) => `Take ${example('parallel', 'fsdp2')}, or a later transformers.`,
  ],
  ['layers-not-even', ({ name }) => `Choose a ${name('tp')} that divides them.`],
  ['heads-not-even', ({ name }) => `Choose a ${name('tp')} that divides both.`],
  [
    'ranks-not-even',
    ({ name }) => `Choose ${name('tp')} and ${name('nodes')} so that they divide ${name('gpus')}.`,
  ],
  ['script-missing', ({ name }) => `Check the path of ${name('script')}.`],
  // Only the command estimates programs, so its option may be named.
  ['program-ended', () => 'Run it with --verbose to see what it prints.'],
  // It is a temporary file of ours.
  ['output-unwritable', () => 'Make room for temporary files.'],
]);

/**
 * Returns the next step after a failure of the Python part, by its code; undefined if its own words
 * serve every reader.
 *
 * @example
 * pythonNextStep('no-checkpointing', callWording); // 'Leave checkpointing out.'
 */
export function pythonNextStep(code: string, wording: Wording): string | undefined {
  return nextSteps.get(code)?.(wording);
}

function leaveOut(setting: EstimateSetting): NextStep {
  return ({ name }) => `Leave ${name(setting)} out.`;
}
