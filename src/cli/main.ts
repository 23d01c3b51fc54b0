import { isatty } from 'node:tty';
import { Failure } from '../failure.js';
import { packageVersion } from '../files/folders.js';
import { type CliIo, processIo } from './io.js';
import { checkText } from './options/not-utf-8.js';
import { reportError } from './report-error.js';

/**
 * Runs the command line and answers its exit code.
 *
 * @example
 * process.exitCode = await main(['devices', '--json']);
 */
export async function main(argv: readonly string[], io: CliIo = processIo()): Promise<number> {
  const terminals = [0, 1, 2].filter(isatty);
  const debug = Boolean(io.environment['PLIMSOLL_DEBUG']) || argv.includes('--debug');
  const fail = (error: unknown): number => {
    const { exitCode, text } = reportError(error, debug);
    io.stderr.write(text);
    return exitCode;
  };
  // An exception outside of what we await must not print a bare stack, either.
  const unexpected = (error: unknown): never => {
    // Last of all, so that a screen that is still up is given back before.
    process.once('exit', () => fail(error));
    process.exit(reportError(error, debug).exitCode);
  };
  process.on('uncaughtException', unexpected);
  try {
    checkText(argv, io);
    const { runProgram } = await import('./program.js');
    const exitCode = await runProgram(argv, io, packageVersion());
    await checkWritten(io);
    return exitCode;
  } catch (error) {
    return fail(error);
  } finally {
    process.off('uncaughtException', unexpected);
    // Node aborts at its end when it cannot give the terminal back: after its terminal was closed,
    // a process ends by the signal that says so. All that had to be written is written by now.
    if (!terminals.every(isatty)) process.kill(process.pid, 'SIGHUP');
  }
}

/** An answer that did not get out (a full disk behind `> file`) must not look like success. */
async function checkWritten({ stdout }: CliIo): Promise<void> {
  // Streams tell of an error in a later turn of the event loop than the write.
  await new Promise((resolve) => setImmediate(resolve));
  if (stdout.failure === undefined) return;
  throw new Failure({
    kind: 'missing',
    code: 'cannot-write',
    fact: `The answer could not be written to stdout: ${stdout.failure.message}.`,
    next: 'Free some disk space, or write it elsewhere.',
    cause: stdout.failure,
  });
}
