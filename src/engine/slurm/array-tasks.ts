import { Failure } from '../../failure.js';

/** Slurm's own default limit is 1,000; sites raise it to some 100,000. */
const maxTasks = 1_000_000;

/**
 * The tasks that an option of sbatch asks for; undefined where the job is no array.
 *
 * @example
 * arrayTasks(['--time=10', '--array=0-4:2,9%3']); // [0, 2, 4, 9]
 */
export function arrayTasks(options: readonly string[]): readonly number[] | undefined {
  const spec = arraySpec(options);
  if (spec === undefined) return undefined;
  const tasks = new Set<number>();
  for (const part of spec.replace(/%\d+$/, '').split(',')) {
    const [, from, to, step] = /^(\d{1,7})(?:-(\d{1,7})(?::(\d{1,7}))?)?$/.exec(part.trim()) ?? [];
    const first = Number(from);
    const last = to === undefined ? first : Number(to);
    const by = step === undefined ? 1 : Number(step);
    if (from === undefined || by < 1 || last < first) throw badArray(spec);
    for (let task = first; task <= last; task += by) {
      tasks.add(task);
      if (tasks.size > maxTasks) throw badArray(spec);
    }
  }
  return [...tasks].toSorted((a, b) => a - b);
}

/** The same options without the array: a successor is one task of it. */
export function withoutArray(options: readonly string[]): readonly string[] {
  return options.filter((option, index) => !isArray(option) && !takesNext(options[index - 1]));
}

function arraySpec(options: readonly string[]): string | undefined {
  const index = options.findLastIndex(isArray);
  const option = options[index];
  if (option === undefined) return undefined;
  return takesNext(option) ? (options[index + 1] ?? '') : option.replace(/^(--array=|-a=?)/, '');
}

function isArray(option: string): boolean {
  return /^(--array(=|$)|-a)/.test(option) && !/^-a[a-z]/.test(option);
}

function takesNext(option: string | undefined): boolean {
  return option === '--array' || option === '-a';
}

function badArray(spec: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'bad-option',
    fact: `--array cannot be "${spec.slice(0, 100)}".`,
    next: 'It takes tasks such as 0-9, 1,3,5 or 0-99%4.',
  });
}
