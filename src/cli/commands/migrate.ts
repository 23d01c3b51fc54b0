import { existsSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { pythonProgram } from '../../estimate/trace/python-trace.js';
import { Failure } from '../../failure.js';
import { changeFiles } from '../../files/change-files.js';
import { homeFolder } from '../../files/folders.js';
import { type CodeBase, type ReadFile, readCodeBase } from '../../migrate/read-code-base.js';
import { cleanText } from '../../report/text/text-width.js';
import { systemClock } from '../../time/clock.js';
import { undoChange } from '../answers/undo-change.js';
import type { CommandModule } from '../command-module.js';
import { type CliIo, printJson } from '../io.js';
import { withStop } from '../running/run-watch.js';
import { showBusy } from '../screen/progress.js';
import { type Stop, stopOnSignals } from '../stop.js';

interface MigrateArguments {
  readonly apply?: boolean;
  readonly undo?: boolean;
  readonly python?: string;
  readonly json?: boolean;
}

export const migrateCommand: CommandModule = {
  define(command, context) {
    command
      .argument('[path]', 'a Python file, or a folder of them')
      .option('--apply', 'write the changes; the originals are kept')
      .option('--undo', 'put back what the last --apply changed')
      .option('--python <program>', 'the Python that parses the code (the active one)')
      .option('--json', 'print one JSON document on stdout')
      .addHelpText(
        'after',
        `
Finds debug settings in the environment, BitsAndBytesConfig that a preset replaces, out-of-memory handled
by hand, deprecated torch.cuda.amp and apex.amp, empty_cache in loops, and fixed batch sizes. The code is
parsed, never run. What is not understood is left alone and listed. The exit code is 1 when changes are
proposed and not applied.

Examples:
  plimsoll migrate src/
  plimsoll migrate train.py --apply
  plimsoll migrate --undo`,
      )
      .action(
        context.action((path: string | undefined, given: MigrateArguments) =>
          withStop(stopOnSignals([context.io.stdout.closed]), (stop) =>
            migrate(path, given, context.io, stop),
          ),
        ),
      );
  },
};

async function migrate(
  path: string | undefined,
  given: MigrateArguments,
  io: CliIo,
  stop: Stop,
): Promise<number> {
  const { folder, environment } = io;
  const originals = join(homeFolder(environment), 'migrations');
  if (given.undo) {
    if (path !== undefined || given.apply) throw badUsage('--undo stands alone.');
    return undoChange(originals, given.json === true, io);
  }
  if (path === undefined) throw badUsage('No file and no folder was given.');
  const named = resolve(folder, path);
  if (!existsSync(named)) throw noSuchPath(path);
  const python = pythonProgram(given.python, environment);
  const code = await showBusy(io, `Reading ${path}`, (onProgress) =>
    readCodeBase(named, { python, environment, folder, signal: stop.signal, onProgress }),
  ).catch((error: unknown) => {
    if (stop.interruptedBy === undefined) throw error;
    return undefined;
  });
  if (code === undefined) return stop.interruptedBy ?? 0;
  const changes = code.found.flatMap(({ path: file, sha256, after }) =>
    after === undefined ? [] : [{ path: file, sha256, after }],
  );
  const write = given.apply === true && changes.length > 0;
  const now = new Date(systemClock.epochMs());
  const kept = write ? changeFiles(originals, changes, now) : undefined;
  if (given.json) {
    const { files, found, notUnderstood, tooMany } = code;
    const shown = found.map(({ path: file, findings, diff }) => ({ path: file, findings, diff }));
    printJson(io, { files, tooMany, found: shown, notUnderstood, applied: write, kept });
  } else {
    io.stdout.write(migrationDiff(code.found, folder));
    io.stderr.write(`${migrationNotes(code, folder)}\n`);
    if (write) io.stderr.write('Written. "plimsoll migrate --undo" puts the originals back.\n');
  }
  return changes.length > 0 && !write ? 1 : 0;
}

function noSuchPath(path: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'no-file',
    fact: `There is no file or folder "${path}".`,
    next: 'Check the path.',
  });
}

function badUsage(fact: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'bad-usage',
    fact,
    next: 'Write: plimsoll migrate src/, or: plimsoll migrate --undo',
  });
}

/** The unified diff of all files, with paths as `patch -p0` and `git apply -p0` take them. */
function migrationDiff(found: readonly ReadFile[], folder: string): string {
  return found
    .flatMap(({ path, diff }) => {
      if (diff === undefined) return [];
      const name = nameOf(path, folder);
      return [`--- ${name}\n+++ ${name}\n${diff}`];
    })
    .join('');
}

/** What a person should know beside the diff: what was changed, what was left, what was not read. */
function migrationNotes(code: CodeBase, folder: string): string {
  const { files, found, notUnderstood, tooMany } = code;
  const all = found.flatMap(({ path, findings }) =>
    findings.map((finding) => ({ ...finding, place: `${nameOf(path, folder)}:${finding.line}` })),
  );
  const left = all.filter(({ changed }) => !changed);
  const changed = all.length - left.length;
  return [
    `${files} Python ${files === 1 ? 'file' : 'files'}: ${changed} ${changed === 1 ? 'place' : 'places'} can be changed, ${left.length} ${left.length === 1 ? 'is' : 'are'} for you to decide.`,
    ...left.map(({ place, rule, message }) => `  ${place}: ${rule}: ${cleanText(message)}`),
    ...(notUnderstood.length > 0 ? ['Left alone:'] : []),
    ...notUnderstood.map(({ path, why }) => `  ${nameOf(path, folder)}: ${cleanText(why)}`),
    ...(tooMany ? ['There are more files; name a smaller folder.'] : []),
  ].join('\n');
}

function nameOf(path: string, folder: string): string {
  const inside = relative(folder, path);
  return cleanText(inside.startsWith('..') ? path : inside);
}
