import { resolve } from 'node:path';
import { snapshotScripts } from 'plimsoll:snapshot-page';
import { openOutputFile } from '../../files/output-file.js';
import { renderSnapshotHtml } from '../../report/snapshot-html.js';
import { againstText, snapshotText } from '../../report/text/snapshot-text.js';
import { analyseSnapshot, type SnapshotAnalysis } from '../../snapshot/analyse.js';
import { againstDocument, snapshotDocument } from '../../snapshot/document.js';
import { readSnapshot } from '../../snapshot/read-snapshot.js';
import type { CommandContext, CommandModule } from '../command-module.js';
import { type CliIo, printJson, textStyle } from '../io.js';
import { badArgument, countArgument } from '../options/arguments.js';
import { type Announce, showBusy } from '../screen/progress.js';

interface SnapshotArguments {
  readonly against?: string;
  readonly device?: number;
  readonly whatIf?: readonly string[];
  readonly top: number;
  readonly html?: string;
  readonly json?: boolean;
}

export const snapshotCommand: CommandModule = {
  define(command, context) {
    command
      .argument('<file>', 'a file from torch.cuda.memory._dump_snapshot; also .gz and .xz')
      .option('--against <file>', 'compare with this earlier snapshot')
      .option(
        '--device <number>',
        'device number (the one that holds the most memory)',
        deviceArgument,
      )
      .option(
        '--what-if <conf>',
        'replay with these allocator settings, as in PYTORCH_CUDA_ALLOC_CONF; may be repeated',
        confArgument,
      )
      .option('--top <count>', 'number of holders to list', countArgument('--top'), 12)
      .option('--html <file>', 'write the analysis as one HTML page')
      .option('--json', 'print one JSON document on stdout')
      .addHelpText(
        'after',
        `
The file is read, never run: a pickle that would import or call something is refused.
Exit codes: 0 no leak found, 1 a leak was found, 2 the file is not a snapshot.

Examples:
  plimsoll snapshot snapshot.pickle
  plimsoll snapshot after.pickle --against before.pickle
  plimsoll snapshot oom.pickle.xz --what-if expandable_segments:True --html oom.html`,
      )
      .action(
        context.action((path: string, given: SnapshotArguments) => answer(path, given, context)),
      );
  },
};

async function answer(
  path: string,
  given: SnapshotArguments,
  { io, version }: CommandContext,
): Promise<number> {
  const page = given.html === undefined ? undefined : openOutputFile(given.html, io.folder);
  const { analysis, against } = await showBusy(io, `Reading ${path}`, async (announce) => {
    const found = await analyse(path, given, { io, announce });
    const other =
      given.against === undefined
        ? undefined
        : await analyse(given.against, { ...given, whatIf: [] }, { io, announce });
    if (page) {
      announce(`Writing ${given.html}`);
      page.write(renderSnapshotHtml(found, { name: path, version, scripts: snapshotScripts }));
    }
    return { analysis: found, against: other };
  });
  const { top } = given;
  if (given.json) {
    printJson(io, {
      file: path,
      ...snapshotDocument(analysis, { top }),
      ...(against ? { against: againstDocument(analysis, against, { top }) } : {}),
    });
  } else {
    const options = { top, columns: io.stdout.columns(), style: textStyle(io) };
    io.stdout.write(`${snapshotText(analysis, options)}\n`);
    if (against) io.stdout.write(`\n${againstText(analysis, against, options)}\n`);
    if (given.html !== undefined) io.stdout.write(`Written to ${given.html}.\n`);
  }
  return analysis.leaks.leaks.length > 0 ? 1 : 0;
}

async function analyse(
  path: string,
  { device, whatIf }: Pick<SnapshotArguments, 'device' | 'whatIf'>,
  { io, announce }: { readonly io: CliIo; readonly announce: Announce },
): Promise<SnapshotAnalysis> {
  const snapshot = await readSnapshot(resolve(io.folder, path), (share) =>
    announce(`Reading ${path}`, share),
  );
  announce(`Analysing ${path}`);
  return analyseSnapshot(snapshot, {
    ...(device === undefined ? {} : { device }),
    ...(whatIf === undefined ? {} : { whatIf }),
  });
}

function confArgument(text: string, before: readonly string[] | undefined): readonly string[] {
  return [...(before ?? []), text];
}

function deviceArgument(text: string): number {
  const number = /^(?:gpu:)?(\d{1,4})$/.exec(text)?.[1];
  if (number === undefined) {
    throw badArgument('--device', text, 'It takes the number of a device, such as 0.');
  }
  return Number(number);
}
