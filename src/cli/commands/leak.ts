import { cleanText } from '../../report/text/text-width.js';
import { leakWords, rateWords } from '../../report/words.js';
import { formatBytes, MiB } from '../../units/bytes.js';
import { formatSeconds } from '../../units/durations.js';
import { isKnown } from '../../units/known.js';
import type { DeviceState, Leak } from '../../watch/types.js';
import type { CommandModule } from '../command-module.js';
import { type CliIo, printJson, textStyle } from '../io.js';
import { mebibytesArgument, pidArgument } from '../options/arguments.js';
import { addWatchOptions, settingsOf, type WatchArguments } from '../options/watch-options.js';
import { followProcess } from '../running/followed-process.js';
import { runWatch, withStop } from '../running/run-watch.js';
import type { Progress } from '../screen/progress.js';
import { watchProgress } from '../screen/watch-progress.js';
import { type Stop, stopOnSignals } from '../stop.js';
import { type LeakName, LeakNames } from '../watching/leak-names.js';
import {
  LeakNews,
  type LeakVerdict,
  leakVerdict,
  type ProcessLeak,
} from '../watching/leak-verdict.js';

interface LeakArguments extends WatchArguments {
  readonly check?: boolean;
  readonly strict?: boolean;
  readonly threshold?: number;
  readonly pid?: number;
}

const checkSeconds = 30;
const defaultThresholdBytes = 100 * MiB;
/** Asking for one process costs more than asking for a device: a second is often enough. */
const processIntervalSeconds = 1;

export const leakCommand: CommandModule = {
  define(command, context) {
    addWatchOptions(command, `${checkSeconds} with --check, else 0`)
      .option('--check', 'watch for a while, then answer with the exit code')
      .option('--strict', 'with --check: also exit with 1 when the answer is unknown')
      .option(
        '--threshold <MiB>',
        'smallest growth that counts as a leak: MiB (100), or a size with a unit',
        mebibytesArgument('--threshold'),
      )
      .option(
        '--pid <number>',
        'watch this process: its GPU memory, or its host memory if it uses no GPU',
        pidArgument('--pid'),
      )
      .addHelpText(
        'after',
        `
A leak is memory that grows evenly, is not freed, and has grown by at least the threshold. Telling it
from a program that is still starting takes 25 s of data, or three cycles of a sawtooth. Until then,
and while growth slows down, the answer is "unknown", with the rate and how long to watch; it is never
"none" while memory grows. With --check the exit code is 1 when a leak was found, else 0; with
--strict it is also 1 when the answer is unknown. Without --check it runs until interrupted and
reports each leak when it is found and when it has doubled.

Examples:
  plimsoll leak --check --threshold 100
  plimsoll leak --check --pid 4711 --duration 120`,
      )
      .action(
        context.action((given: LeakArguments) =>
          withStop(stopOnSignals([context.io.stdout.closed]), (stop) =>
            leak(given, context.io, stop),
          ),
        ),
      );
  },
};

async function leak(given: LeakArguments, io: CliIo, stop: Stop): Promise<number> {
  const { pid, threshold = defaultThresholdBytes } = given;
  const slower = pid === undefined ? {} : { interval: processIntervalSeconds };
  const settings = await settingsOf({ ...slower, ...given }, io);
  const news = new LeakNews(threshold);
  const names = new LeakNames();
  if (pid !== undefined) names.read(pid);
  const durationSeconds = given.duration ?? (given.check ? checkSeconds : 0);
  const show = watchProgress(durationSeconds, leakProgress, textStyle(io).unicode);
  const watching = await runWatch({
    settings,
    io,
    durationSeconds,
    signal: stop.signal,
    ...(pid === undefined ? {} : { instead: (devices) => followProcess(pid, devices) }),
    // Leaks are this command's own answer, and a process is not a device that went away.
    isPrinted: (event) =>
      event.type === 'alert' ? event.alert.kind !== 'leak' : pid === undefined,
    onEvent(event, { states }, progress) {
      if (event.type === 'sample') {
        names.take(event.state);
        if (!given.check && !given.json) printNews(event.state, news, names, progress, io);
        show(event.sample.atSeconds, states(), progress);
      }
      // With the process gone there is nothing left to follow; that it ended is no error.
      const gone = event.type === 'vanished' && states().every((state) => !state.present);
      if (pid === undefined || !gone) return;
      progress.line(`plimsoll: ${event.reason}`);
      stop.stop();
    },
  });
  const verdict = leakVerdict(watching.states(), threshold, names.of);
  const who = pid === undefined ? undefined : names.of(pid);
  if (given.json) printJson(io, who === undefined ? verdict : { ...verdict, who });
  else if (given.check) io.stdout.write(verdictText(verdict, watching.states(), who));
  const fails = verdict.found === true || (given.strict === true && verdict.found === 'unknown');
  return stop.interruptedBy ?? (fails ? 1 : 0);
}

/** `gpu:0 grows by 12 MiB a second`, or how much is used. */
function leakProgress({ info, leak: found, latest }: DeviceState): string {
  const grows = found.found !== false && isKnown(found.bytesPerSecond) && found.bytesPerSecond > 0;
  return grows
    ? `${info.id} grows by ${rateWords(found.bytesPerSecond)}`
    : `${info.id} ${formatBytes(latest.usedBytes)}`;
}

function printNews(
  state: DeviceState,
  news: LeakNews,
  names: LeakNames,
  progress: Progress,
  io: CliIo,
): void {
  const print = (who: string, found: Leak, more: readonly string[] = []) => {
    if (!news.take(who, found)) return;
    progress.end();
    const when = new Date(state.latest.epochMs).toISOString();
    const line = `${when} ${who}: ${leakWords(found)} (${state.info.provenance})`;
    for (const one of [line, ...more]) io.stdout.write(`${cleanText(one)}\n`);
  };
  print(`${state.info.id} (${state.info.name})`, state.leak);
  for (const [pid, found] of state.processLeaks) {
    print(`${state.info.id} process ${pid}`, found, nameLines(names.of(pid)));
  }
}

function verdictText(
  verdict: LeakVerdict,
  states: readonly DeviceState[],
  who: LeakName | undefined,
): string {
  const seconds = Math.max(0, ...states.map((state) => state.latest.atSeconds));
  const lines = verdict.devices.flatMap((device) => [
    `${device.id}  ${device.name}: ${leakWords(device.leak)}${mark(device.overThreshold)}`,
    ...(device.overThreshold ? nameLines(who) : []),
    ...device.processLeaks.flatMap(processLines),
  ]);
  const answer = answerText(verdict, seconds);
  const end = `${answer} Watched for ${formatSeconds(seconds)}.`;
  return `${[...lines, end].map(cleanText).join('\n')}\n`;
}

function processLines(one: ProcessLeak): string[] {
  const line = `  process ${one.pid} (${one.name}): ${leakWords(one)}${mark(one.overThreshold)}`;
  return [line, ...(one.overThreshold ? nameLines(one.who) : [])];
}

/** Who it is, and the next step; nothing where that could not be read. */
function nameLines(who: LeakName | undefined): string[] {
  if (who === undefined) return [];
  const { user, commandLine, script, container, next } = who;
  const inContainer = container === 'none' || !isKnown(container) ? '' : `, in ${container}`;
  const what = script === 'none' || !isKnown(script) ? 'a program' : script;
  return [`    ${what} of ${user}${inContainer}: ${commandLine}`, `    next: ${next}`];
}

function answerText(
  { found, watchSeconds, devices, thresholdBytes }: LeakVerdict,
  seen: number,
): string {
  if (found === true) return 'A leak was found.';
  if (found === 'unknown') {
    const duration = Math.ceil(seen + watchSeconds);
    return `Whether there is a leak is unknown: watch longer (--duration ${duration}).`;
  }
  const small = devices.some(
    (device) => device.leak.found === true || device.processLeaks.some((one) => one.found === true),
  );
  return small
    ? `Memory leaks, but took less than ${formatBytes(thresholdBytes)} so far.`
    : 'No leak was found.';
}

function mark(overThreshold: boolean): string {
  return overThreshold ? '  LEAK' : '';
}
