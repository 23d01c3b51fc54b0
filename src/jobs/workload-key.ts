import { createHash } from 'node:crypto';
import { basename } from 'node:path';

/** What makes two jobs the same: they should need the same memory. */
export interface WorkloadIdentity {
  readonly command: readonly string[];
  /** Model and settings, where they were told. */
  readonly workload?: Readonly<Record<string, unknown>> | undefined;
  /** Batch, accumulation and the like that the command was run with. */
  readonly settings?: Readonly<Record<string, unknown>> | undefined;
  readonly gpus: number;
}

/**
 * A short name of a workload, the same for commands that differ only in how they are written: where
 * the program lies, `--batch=8` or `--batch 8`, spaces around. Everything else counts: a peak must
 * not be taken from a job that might need less.
 *
 * @example
 * workloadKey({ command: ['/usr/bin/python', 'train.py', '--batch=8'], gpus: 1 }) ===
 *   workloadKey({ command: ['python', 'train.py', '--batch', '8'], gpus: 1 }); // true
 */
export function workloadKey({ command, workload, settings, gpus }: WorkloadIdentity): string {
  const [program = '', ...args] = command.map((word) => word.trim());
  const words = args.flatMap((word) => {
    const [, option, value] = /^(--[\w-]+)=(.*)$/s.exec(word) ?? [];
    return option === undefined ? [word] : [option, value];
  });
  const identity = canonical([[basename(program), ...words], workload, settings, gpus]);
  return createHash('sha256').update(identity).digest('hex').slice(0, 32);
}

/** JSON with sorted keys; what is undefined is as if it were not there. */
function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null';
  const entries = Object.entries(value)
    .filter(([, inner]) => inner !== undefined)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, inner]) => `${JSON.stringify(key)}:${canonical(inner)}`);
  return `{${entries.join()}}`;
}
