import { resolve } from 'node:path';
import type { Settings } from '../../config/settings.js';
import { type OutputFile, openOutputFile, writeAll } from '../../files/output-file.js';
import { renderProfileHtml } from '../../report/profile-html.js';
import type { ProfileReport } from '../../report/report-shape.js';
import { profileSummary } from '../../report/text/lines.js';
import { usedOfTotal } from '../../report/words.js';
import type { DeviceState } from '../../watch/types.js';
import type { CommandContext, CommandModule } from '../command-module.js';
import { type CliIo, printJson, textStyle } from '../io.js';
import { badArgument } from '../options/arguments.js';
import { addWatchOptions, settingsOf, type WatchArguments } from '../options/watch-options.js';
import { runWatch, withStop } from '../running/run-watch.js';
import { profileChart } from '../screen/profile-chart.js';
import { watchProgress } from '../screen/watch-progress.js';
import { type Stop, stopOnSignals } from '../stop.js';
import { TraceRecorder } from '../watching/trace-recorder.js';

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
