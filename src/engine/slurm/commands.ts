import { execFile } from 'node:child_process';
import { Failure } from '../../failure.js';
import { maxDocumentBytes, silentController } from './values.js';

/** Runs a command of Slurm and answers what it printed. */
export type SlurmCommand = (
  command: string,
  words: readonly string[],
  input?: string,
) => Promise<string>;

/** A controller that is restarting answers after some tries of its own. */
const timeoutMs = 300_000;

/** The commands as this machine has them. */
export function slurmCommands(
  environment: Readonly<Record<string, string | undefined>>,
): SlurmCommand {
  return (command, words, input) =>
    new Promise((resolve, reject) => {
      const options = { env: environment, maxBuffer: maxDocumentBytes, timeout: timeoutMs };
      const child = execFile(command, [...words], options, (error, stdout, stderr) => {
        if (error === null) resolve(stdout);
        else reject(failureOf(command, error, stderr));
      });
      // A command that ended already reads nothing.
      child.stdin?.on('error', () => {});
      child.stdin?.end(input ?? '');
    });
}

/** As Slurm's commands say that nobody answers. */
const isSilence =
  /unable to contact slurm controller|socket timed out|zero bytes were transmitted|connection (refused|timed out)/i;

function failureOf(command: string, error: Error, stderr: string): Failure {
  const code = 'code' in error ? error.code : undefined;
  if (code === 'ENOENT') {
    return new Failure({
      kind: 'missing',
      code: 'no-slurm',
      fact: `The command ${command} was not found.`,
      next: 'Run it on a machine of a Slurm cluster, or load its module.',
    });
  }
  const lines = stderr.split('\n').map((line) => line.trim());
  const said = lines.findLast((line) => /error/i.test(line)) ?? lines.find((line) => line !== '');
  if (said !== undefined && isSilence.test(said)) return silentController(command, said);
  if ('killed' in error && error.killed === true)
    return silentController(command, `nothing within ${timeoutMs / 1000} s`);
  return new Failure({
    kind: 'missing',
    code: 'slurm-refused',
    fact: `Slurm's ${command} failed: ${(said ?? error.message).slice(0, 400)}`,
    next: 'Correct what it names. Options of "plimsoll submit" that are not listed by its --help go to sbatch as they are.',
    cause: error,
  });
}
