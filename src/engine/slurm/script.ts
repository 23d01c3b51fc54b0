import { shellWords } from '../../units/shell-words.js';
import { startedAgain } from '../node/started-again.js';
import type { SlurmRequest } from './request.js';

/** What a batch script is made of. */
export interface ScriptParts {
  readonly name: string;
  /** Our folder for this job, on the shared file system. */
  readonly folder: string;
  /** Which submission of the job it is, from 1 on. */
  readonly attempt: number;
  readonly cwd: string;
  readonly request: SlurmRequest;
  /** Marks the job as ours, and which one it is. */
  readonly comment: string;
  /** The command `plimsoll` as the nodes start it. */
  readonly plimsoll: readonly string[];
  /** Options of sbatch that the person gave; they come last, so that they win. */
  readonly options: readonly string[];
}

/** The script that `sbatch` gets. */
export function batchScript(parts: ScriptParts): string {
  const { request, folder, plimsoll } = parts;
  const options = [
    `--job-name=${parts.name}`,
    `--comment=${parts.comment}`,
    `--chdir=${parts.cwd}`,
    `--output=${folder}/log-%j.txt`,
    '--open-mode=append',
    '--requeue',
    ...(request.gres === 'none' ? [] : [`--gres=${request.gres}`]),
    ...(request.constraint === undefined ? [] : [`--constraint=${request.constraint}`]),
    ...(request.partition === 'default' ? [] : [`--partition=${request.partition}`]),
    ...hostOptions(request, parts.options),
    ...parts.options,
  ];
  const command = `${shellWords([...plimsoll, 'on-node', folder, String(parts.attempt)])} "$start"`;
  const ended = `${shellWords([`${folder}/ended`])}"/$start.\${SLURM_RESTART_COUNT:-0}"`;
  return `#!/bin/sh
${options.map((option) => `#SBATCH ${optionQuoted(option)}`).join('\n')}

# ${oneLine(request.why)}
# A controller that lost its last seconds gives the same number again: this names one start of the job.
start="$SLURM_JOB_ID-$(od -An -N4 -tx4 /dev/urandom | tr -d ' ')"
${startedAgain(command, ended)}`;
}

/** Options that say the same in another way; Slurm refuses some of them beside ours. */
const saysMemory = /^(--mem(-per-(cpu|gpu))?|--exclusive)(=|$)/;
const saysProcessors =
  /^(-c|-n|-N|--cpus-per-(task|gpu)(=|$)|--ntasks|--nodes(=|$)|--exclusive(=|$)|--mincpus(=|$))/;

/** What the person said of the host stands. */
function hostOptions(
  { memoryMebibytes: memory, cpus = 'default' }: SlurmRequest,
  options: readonly string[],
): readonly string[] {
  const isSaid = (pattern: RegExp) => options.some((option) => pattern.test(option));
  return [
    ...(memory === 'default' || isSaid(saysMemory) ? [] : [`--mem=${memory}M`]),
    ...(cpus === 'default' || isSaid(saysProcessors) ? [] : [`--cpus-per-task=${cpus}`]),
  ];
}

/** For a line that sbatch reads: it knows quotes and backslashes. */
function optionQuoted(option: string): string {
  const plain = oneLine(option);
  return /^[\w./:=@%+,[\]-]+$/.test(plain)
    ? plain
    : `"${plain.replaceAll(/["\\]/g, String.raw`\$&`)}"`;
}

function oneLine(text: string): string {
  return text.replaceAll(/[\r\n]+/g, ' ');
}
