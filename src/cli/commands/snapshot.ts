import { resolve } from 'node:path';
import { snapshotScripts } from 'plimsoll:snapshot-page';
import { openOutputFile } from '../../files/output-file.js';
import { type Finding, originText, snapshotFindings } from '../../report/findings.js';
import { renderSnapshotHtml } from '../../report/snapshot-html.js';
import { merge } from '../../report/text/charts.js';
import { type Paint, paintLine, type Span, span, type TextStyle } from '../../report/text/spans.js';
import { cleanText, wrapText } from '../../report/text/text-width.js';
import { count, percentWords } from '../../report/words.js';
import { analyseSnapshot, type SnapshotAnalysis } from '../../snapshot/analyse.js';
import { byModule, compareHolders, type Difference } from '../../snapshot/answer/holders.js';
import { againstDocument, recordingOf, snapshotDocument } from '../../snapshot/document.js';
import { readSnapshot } from '../../snapshot/read-snapshot.js';
import type { DeviceSnapshot, Segment } from '../../snapshot/snapshot.js';
import { formatBytes } from '../../units/bytes.js';
import { formatSeconds } from '../../units/durations.js';
import {
  type CliIo,
  type CommandContext,
  type CommandModule,
  printJson,
  textStyle,
} from '../io.js';
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

export interface SnapshotTextOptions {
  /** How many holders are listed. */
  readonly top: number;
  readonly columns: number;
  readonly style: TextStyle;
}

const paints: Readonly<Record<Finding['level'], Paint>> = {
  critical: 'red',
  warning: 'yellow',
  fine: 'green',
  notice: 'dim',
};
const sizeWidth = 10;

/**
 * A snapshot for people: findings first, then who holds the memory and how it lies.
 *
 * @example
 * snapshotText(analysis, { top: 8, columns: 100, style: { colour: false, unicode: true } });
 */
export function snapshotText(analysis: SnapshotAnalysis, options: SnapshotTextOptions): string {
  const { columns, style } = options;
  const { device, snapshot, holders, figures } = analysis;
  const recording = recordingOf(analysis);
  const others = snapshot.devices.length - 1;
  const lines: Span[][] = [
    [
      span(`Device ${device.device}`, 'bold'),
      span(
        `  ${count(device.segments.length, 'segment')}, ${count(device.events.length, 'event')} in ${formatSeconds(recording.seconds)}${others > 0 ? `, ${count(others, 'more device')} in the file (--device)` : ''}`,
        'dim',
      ),
    ],
    [],
    ...snapshotFindings(analysis).flatMap((finding) => findingLines(finding, columns)),
    [],
    [span('Held now, by stack (measured)', 'bold')],
    ...holders
      .slice(0, options.top)
      .map(({ bytes, count: blocks, stack }) =>
        holderLine(bytes, blocks, originText(snapshot.names.stack(stack)), figures.allocatedBytes),
      ),
    ...rest(holders.length - options.top),
    [],
    [span('Held now, by module (measured)', 'bold')],
    ...byModule(holders, snapshot.names)
      .slice(0, options.top)
      .map(({ name, bytes, count: blocks }) =>
        holderLine(bytes, blocks, name, figures.allocatedBytes),
      ),
    [],
    ...segmentLines(device, options),
    ...whatIfLines(analysis),
  ];
  return lines.map((line) => paintLine(line, columns, style)).join('\n');
}

/** What changed from one snapshot to another. */
export function againstText(
  analysis: SnapshotAnalysis,
  against: SnapshotAnalysis,
  { top, columns, style }: SnapshotTextOptions,
): string {
  const differences = compareHolders(
    { holders: analysis.holders, names: analysis.snapshot.names },
    { holders: against.holders, names: against.snapshot.names },
  );
  const total = (key: 'allocatedBytes' | 'reservedBytes') =>
    signed(analysis.figures[key] - against.figures[key]);
  const lines: Span[][] = [
    [span('Against the other snapshot (measured)', 'bold')],
    [span(`  allocated ${total('allocatedBytes')}, reserved ${total('reservedBytes')}`)],
    ...differences.slice(0, top).map(differenceLine),
    ...rest(differences.length - top),
  ];
  return lines.map((line) => paintLine(line, columns, style)).join('\n');
}

function differenceLine({ frames, bytes, againstBytes, count: now, againstCount }: Difference) {
  const change = signed(bytes - againstBytes).padStart(sizeWidth + 1);
  return [
    span(`  ${change}`, bytes > againstBytes ? 'red' : 'green'),
    span(`  ${againstCount} -> ${now}  `.padEnd(16), 'dim'),
    span(cleanText(originText(frames))),
  ];
}

function signed(bytes: number): string {
  return `${bytes < 0 ? '-' : '+'}${formatBytes(Math.abs(bytes))}`;
}

function holderLine(bytes: number, blocks: number, name: string, whole: number): Span[] {
  const share = percentWords(whole === 0 ? 0 : (bytes / whole) * 100, 0);
  return [
    span(`  ${formatBytes(bytes).padStart(sizeWidth)}`),
    span(`  ${share.padStart(5)}  ${count(blocks, 'block').padEnd(13)}`, 'dim'),
    span(cleanText(name)),
  ];
}

function rest(more: number): Span[][] {
  return more > 0 ? [[span(`  and ${count(more, 'more stack')} (--top)`, 'dim')]] : [];
}

function settingLine(name: string, bytes: number, note: string): Span[] {
  return [
    span(`  ${formatBytes(bytes).padStart(sizeWidth)}  `),
    span(cleanText(name)),
    span(note, 'dim'),
  ];
}

function whatIfLines({ whatIfs, history }: SnapshotAnalysis): Span[][] {
  if (whatIfs === undefined) return [];
  const { asRecorded, others } = whatIfs;
  const measured = history.peakReserved.reservedBytes;
  return [
    [],
    [span('Peak reserved with other allocator settings', 'bold')],
    settingLine('as it was', measured, '  measured'),
    settingLine('as it was', asRecorded.peakReservedBytes, '  simulated'),
    ...others.map(({ conf, peakReservedBytes, servesOutOfMemory }) =>
      settingLine(
        conf,
        peakReservedBytes,
        `  simulated${servesOutOfMemory ? '; would have served the request that failed' : ''}`,
      ),
    ),
  ];
}

/** A finding may be what matters most, so it is wrapped and never cut. */
function findingLines({ level, text, provenance }: Finding, columns: number): Span[][] {
  const width = Math.max(20, Math.min(columns, 110) - 4);
  return wrapText(`${text} [${provenance}]`, width).map((part, index) => [
    span(index === 0 ? '- ' : '  ', paints[level]),
    span(part, level === 'critical' || level === 'warning' ? paints[level] : undefined),
  ]);
}

/** The largest segments tell where the memory lies; the rest is counted. */
const most = 8;

/** The segments of a device, each as a bar of what is in use and what is free, where it lies. */
function segmentLines(
  { segments }: DeviceSnapshot,
  { columns, style }: { readonly columns: number; readonly style: TextStyle },
): Span[][] {
  const width = Math.max(10, Math.min(60, columns - 40));
  const shown = segments
    .filter(({ activeBytes }) => activeBytes > 0)
    .toSorted((a, b) => b.totalBytes - a.totalBytes)
    .slice(0, most);
  const empty = segments.filter(({ activeBytes }) => activeBytes === 0);
  const cached = empty.reduce((sum, { totalBytes }) => sum + totalBytes, 0);
  return [
    [span(`Segments: ${style.unicode ? '█ in use  · free' : '# in use  . free'}`, 'bold')],
    ...shown.map((segment) => [
      span(`  ${formatBytes(segment.totalBytes).padStart(10)}  `),
      ...bar(segment, width, style),
      span(`  ${segment.type}${segment.expandable ? ', expandable' : ''}`, 'dim'),
    ]),
    [
      span(
        `  ${count(segments.length - shown.length - empty.length, 'more segment')} partly in use; ${count(empty.length, 'segment')} wholly free (${formatBytes(cached)}, given back by empty_cache())`,
        'dim',
      ),
    ],
  ];
}

/** Each cell is in use as far as half of it is. */
function bar({ blocks, totalBytes }: Segment, width: number, style: TextStyle): Span[] {
  const used = new Float64Array(width);
  let at = 0;
  for (const { bytes, state } of blocks) {
    if (state !== 'inactive') fill(used, (at / totalBytes) * width, (bytes / totalBytes) * width);
    at += bytes;
  }
  return merge(
    [...used].map((share) =>
      share >= 0.5
        ? span(style.unicode ? '█' : '#', 'cyan')
        : share > 0
          ? span(style.unicode ? '▌' : '+', 'cyan')
          : span(style.unicode ? '·' : '.', 'dim'),
    ),
  );
}

function fill(cells: Float64Array, from: number, length: number): void {
  const end = Math.min(cells.length, from + length);
  for (let cell = Math.floor(from); cell < end; cell += 1) {
    const share = Math.min(end, cell + 1) - Math.max(from, cell);
    cells[cell] = (cells[cell] ?? 0) + share;
  }
}
