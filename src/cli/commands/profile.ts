import { parse, resolve } from 'node:path';
import type { Settings } from '../../config/settings.js';
import { type OutputFile, openOutputFile, writeAll } from '../../files/output-file.js';
import { renderProfileHtml } from '../../report/profile-html.js';
import type { DeviceReport, ProfileReport } from '../../report/profile-report.js';
import { sparkRows } from '../../report/text/charts.js';
import { profileSummary } from '../../report/text/lines.js';
import { paintLine, span, type TextStyle } from '../../report/text/spans.js';
import { cleanText } from '../../report/text/text-width.js';
import { usedOfTotal } from '../../report/words.js';
import { formatBytes } from '../../units/bytes.js';
import { formatSeconds } from '../../units/durations.js';
import { isKnown } from '../../units/known.js';
import type { DeviceState, Sample } from '../../watch/types.js';
import {
  type CliIo,
  type CommandContext,
  type CommandModule,
  printJson,
  textStyle,
} from '../io.js';
import { badArgument } from '../options/arguments.js';
import { addWatchOptions, settingsOf, type WatchArguments } from '../options/watch-options.js';
import { watchProgress } from '../screen/progress.js';
import { type Stop, stopOnSignals } from '../stop.js';
import { runWatch, withStop } from '../watching.js';

interface ProfileArguments extends WatchArguments {
  readonly output?: string;
  readonly html?: string;
  readonly record?: string;
}

const usualSeconds = 60;

export const profileCommand: CommandModule = {
  define(command, context) {
    addWatchOptions(command, String(usualSeconds))
      .option('--output <file>', 'write the report as JSON; "plimsoll replay" reads it')
      .option('--html <file>', 'write the report as one HTML page with charts')
      .option('--record <file>', 'write every sample as a trace; "plimsoll replay" reads it')
      .addHelpText(
        'after',
        `
An interrupted profile still writes its files. A trace holds one device; with several devices, each
gets a file of its own (trace.gpu-0.json).

Examples:
  plimsoll profile --duration 60 --interval 0.1 --devices 0 1 --output profile.json --html profile.html
  plimsoll profile --duration 60 --devices 0 --record trace.json && plimsoll replay trace.json`,
      )
      .action(
        context.action((given: ProfileArguments) =>
          withStop(stopOnSignals(), (stop) => profile(given, context, stop)),
        ),
      );
  },
};

async function profile(
  given: ProfileArguments,
  { io, version }: CommandContext,
  stop: Stop,
): Promise<number> {
  const settings = await settingsOf(given, io);
  const files = openOutputs(given, io);
  const durationSeconds = given.duration ?? usualSeconds;
  const recorder = given.record === undefined ? undefined : new TraceRecorder();
  const show = watchProgress(durationSeconds, usedProgress, textStyle(io).unicode);
  const watching = await runWatch({
    settings,
    io,
    durationSeconds,
    signal: stop.signal,
    onEvent: (event, { states }, progress) => {
      if (event.type !== 'sample') return;
      recorder?.take(event.sample);
      show(event.sample.atSeconds, states(), progress);
    },
  });
  const report = watching.report(version, stop.interruptedBy !== undefined);
  const traces = given.record === undefined ? [] : (recorder?.files(given.record) ?? []);
  try {
    writeAll([
      ...(files.output
        ? [[files.output, `${JSON.stringify(report, undefined, 2)}\n`] as const]
        : []),
      ...(files.html ? [[files.html, renderProfileHtml(report)] as const] : []),
      ...traces.map(({ path, text }) => [openOutputFile(path, io.folder), text] as const),
    ]);
  } finally {
    // Even when a file could not be written, an hour of watching should not be for nothing.
    answer(report, given, settings, io);
  }
  const recorded = traces.map(({ path, id }) => `${path} (${id}, for "plimsoll replay")`);
  const written = [given.output, given.html, ...recorded].filter((file) => file !== undefined);
  if (!given.json && written.length > 0) {
    io.stdout.write(`\nWritten to ${written.join(' and ')}.\n`);
  }
  return stop.interruptedBy ?? 0;
}

function openOutputs(
  { output, html, record }: ProfileArguments,
  { folder }: CliIo,
): { output?: OutputFile; html?: OutputFile } {
  const named = new Map<string, string>();
  for (const [option, path] of Object.entries({ output, html, record })) {
    if (path === undefined) continue;
    const other = named.get(resolve(folder, path));
    if (other !== undefined) {
      throw badArgument(`--${option}`, path, `It is the file of --${other}, too: name two files.`);
    }
    named.set(resolve(folder, path), option);
  }
  // Whether it can be written is told before the hour is spent.
  if (record !== undefined) openOutputFile(record, folder);
  return {
    ...(output === undefined ? {} : { output: openOutputFile(output, folder) }),
    ...(html === undefined ? {} : { html: openOutputFile(html, folder) }),
  };
}

function answer(
  report: ProfileReport,
  { json, output, html }: ProfileArguments,
  { loadLinePercent }: Settings,
  io: CliIo,
): void {
  if (json) {
    printJson(io, report);
    return;
  }
  const chart = output === undefined && html === undefined;
  const size = { columns: io.stdout.columns(), loadLinePercent, style: textStyle(io) };
  if (chart) io.stdout.write(`${profileChart(report, size)}\n`);
  io.stdout.write(`${profileSummary(report)}\n`);
}

function usedProgress({ info, latest }: DeviceState): string {
  return `${info.id} ${usedOfTotal(latest.usedBytes, latest.totalBytes)}`;
}

/** What `replay` takes at most: a week at one reading a second has a third of it. */
const maxRows = 2_000_000;

interface Recording {
  readonly kind: 'gpu' | 'host';
  capacityBytes: number;
  readonly rows: number[][];
}

/** Every sample of each device, in the form that `replay` and `--simulate` read. */
export class TraceRecorder {
  readonly #devices = new Map<string, Recording>();

  /** A sample of which the memory is not known has nothing to tell. */
  take({ device, atSeconds, usedBytes, totalBytes, allocator }: Sample): void {
    const capacityBytes = allocator?.limitBytes ?? totalBytes;
    if (usedBytes === 'unknown' || capacityBytes === 'unknown') return;
    const known = this.#devices.get(device.id);
    const recording = known ?? { kind: device.kind, capacityBytes, rows: [] };
    if (known === undefined) this.#devices.set(device.id, recording);
    recording.capacityBytes = Math.max(recording.capacityBytes, capacityBytes);
    if (recording.rows.length >= maxRows) return;
    const before = recording.rows.at(-1)?.[0] ?? -1;
    // Times must rise.
    if (atSeconds <= before) return;
    recording.rows.push(
      allocator === undefined
        ? [atSeconds, usedBytes]
        : [atSeconds, usedBytes, allocator.allocatedBytes, allocator.reservedBytes],
    );
  }

  /**
   * One text for each file: the only GPU, or the only device, has the name that was asked for;
   * several have their ids in their names (`trace.gpu-0.json`).
   */
  files(path: string): { readonly path: string; readonly id: string; readonly text: string }[] {
    const all = [...this.#devices];
    const gpus = all.filter(([, { kind }]) => kind === 'gpu');
    const recorded = gpus.length === 1 ? gpus : all;
    return recorded.map(([id, recording]) => ({
      id,
      path: recorded.length === 1 ? path : pathFor(path, id),
      text: textOf(recording),
    }));
  }
}

function pathFor(path: string, id: string): string {
  const { dir, name, ext } = parse(path);
  const file = `${name}.${id.replaceAll(/[^\w]+/g, '-')}${ext}`;
  return dir === '' ? file : `${dir}/${file}`;
}

function textOf({ capacityBytes, rows }: Recording): string {
  // An allocator that reported in some samples only would leave holes.
  const whole = rows.every((row) => row.length === 4);
  const columns = ['seconds', 'device_used', ...(whole ? ['allocated', 'reserved'] : [])];
  const lines = rows.map((row) => JSON.stringify(row.slice(0, columns.length)));
  return `{"capacity":${capacityBytes},"columns":${JSON.stringify(columns)},"rows":[\n${lines.join(',\n')}\n]}\n`;
}

const chartRows = 5;
const maxColumns = 100;

interface ChartOptions {
  readonly columns: number;
  readonly loadLinePercent: number;
  readonly style: TextStyle;
}

/** Memory use over the time of a profile, a few lines for each device. */
function profileChart(report: ProfileReport, options: ChartOptions): string {
  return Object.values(report.devices)
    .flatMap((device) => deviceChart(device, options))
    .join('\n');
}

function deviceChart(device: DeviceReport, { columns, loadLinePercent, style }: ChartOptions) {
  const width = Math.min(columns, maxColumns) - 2;
  const { totalBytes } = device.currentUsage;
  if (!isKnown(totalBytes) || width < 10) return [];
  const values = device.series.usedBytes.max.map((value) => (isKnown(value) ? value : Number.NaN));
  // Few values are stretched over the whole width: the end of the line is the end of the profile.
  const stretched = Array.from(
    { length: Math.max(width, values.length) },
    (_, index) => values[Math.floor((index * values.length) / Math.max(width, values.length))] ?? 0,
  );
  const rows = sparkRows(stretched, {
    width,
    height: chartRows,
    top: totalBytes,
    line: (totalBytes * loadLinePercent) / 100,
    style,
  });
  const end = formatSeconds(device.series.seconds.at(-1) ?? 0);
  const title = `${device.id}  ${device.name}, ${formatBytes(totalBytes)}, ${device.provenance}`;
  return [
    [span(cleanText(title), 'bold')],
    ...rows.map((row) => [span('  ')].concat(row)),
    [span(`  0 s${end.padStart(width - 3)}`, 'dim')],
    [],
  ].map((line) => paintLine(line, columns, style));
}
