import type { Settings } from '../../config/settings.js';
import { alertBlock } from '../../report/text/lines.js';
import { fullWords, percentOf, percentWords } from '../../report/words.js';
import type { Alert, DeviceState } from '../../watch/types.js';
import type { CommandModule } from '../command-module.js';
import { type CliIo, printJson, textStyle } from '../io.js';
import { percentArgument } from '../options/arguments.js';
import { addWatchOptions, settingsOf, type WatchArguments } from '../options/watch-options.js';
import { runWatch, withStop } from '../running/run-watch.js';
import { watchProgress } from '../screen/watch-progress.js';
import { type Stop, stopOnSignals } from '../stop.js';
import { OomAlarm } from '../watching/oom-alarm.js';
import { oomAlert, oomDevice, oomLine } from '../watching/oom-answer.js';

interface OomArguments extends WatchArguments {
  readonly threshold: number;
  readonly monitor?: boolean;
}

/** 10 s of observed growth supports a 20 s forecast. */
const checkSeconds = 10;
const defaultThresholdPercent = 85;
/** The first ones tell how it began; a run of weeks must not fill the memory. */
const keptWarnings = 10_000;

export const oomCommand: CommandModule = {
  define(command, context) {
    addWatchOptions(command, `${checkSeconds}; 0 with --monitor`)
      .option(
        '--threshold <percent>',
        'warn above this memory use',
        percentArgument('--threshold'),
        defaultThresholdPercent,
      )
      .option('--monitor', 'run until interrupted; warn each time the risk rises')
      .addHelpText(
        'after',
        `
Without --monitor it watches for a while and answers with its exit code: 1 when a device is above
the threshold or is expected to run out of memory within a minute, else 0. 10 s of
observed growth supports a 20 s forecast, so a longer --duration looks further ahead. With --monitor
the exit code is 130 when interrupted, and after --duration 1 if there was anything to warn of.

Examples:
  plimsoll oom --threshold 85 --monitor
  plimsoll oom --devices 0 --threshold 90 && python train.py`,
      )
      .action(
        context.action((given: OomArguments) =>
          withStop(stopOnSignals([context.io.stdout.closed]), (stop) =>
            oom(given, context.io, stop),
          ),
        ),
      );
  },
};

async function oom(given: OomArguments, io: CliIo, stop: Stop): Promise<number> {
  const settings = await settingsOf(given, io);
  const { threshold, monitor = false } = given;
  const warnings: Alert[] = [];
  const alarm = alarmFor(settings, threshold);
  const durationSeconds = given.duration ?? (monitor ? 0 : checkSeconds);
  const show = watchProgress(durationSeconds, oomProgress, textStyle(io).unicode);
  const watching = await runWatch({
    settings,
    io,
    durationSeconds,
    signal: stop.signal,
    // What the alarm tells of need not be told twice.
    isPrinted: (event) => event.type !== 'alert' || event.alert.kind !== 'out-of-memory-risk',
    onEvent(event, { states }, progress) {
      if (event.type !== 'sample') return;
      const warning = alarm(event.state);
      show(event.sample.atSeconds, states(), progress);
      if (warning === undefined) return;
      if (warnings.length < keptWarnings) warnings.push(warning);
      if (!monitor || given.json) return;
      // The line that lives is wiped first, so that the warning stands alone.
      progress.end();
      io.stdout.write(`${alertBlock(warning, event.state)}\n`);
    },
  });
  const devices = watching.states().map((state) => oomDevice(state, threshold));
  const safe = !devices.some((device) => device.aboveThreshold || device.atRisk);
  if (given.json) printJson(io, { thresholdPercent: threshold, safe, devices, warnings });
  else if (!monitor) {
    for (const device of devices) io.stdout.write(`${oomLine(device, threshold)}\n`);
  }
  return stop.interruptedBy ?? (safe && !(monitor && warnings.length > 0) ? 0 : 1);
}

/** `gpu:0 85 %, full in 45 s (30 to 70 s)`. */
function oomProgress({ info, latest, forecast }: DeviceState): string {
  const percent = percentWords(percentOf(latest.usedBytes, latest.totalBytes));
  const full = fullWords(forecast);
  return `${info.id} ${percent}${full === undefined ? '' : `, ${full}`}`;
}

/** One alarm for each device, made when the device is first seen. */
function alarmFor(
  settings: Settings,
  thresholdPercent: number,
): (state: DeviceState) => Alert | undefined {
  const alarms = new Map<string, OomAlarm>();
  return (state) => {
    const { usedBytes, totalBytes, atSeconds } = state.latest;
    let alarm = alarms.get(state.info.id);
    if (alarm === undefined) {
      alarm = new OomAlarm(thresholdPercent, settings.alerts.hysteresisPercent);
      alarms.set(state.info.id, alarm);
    }
    const usedPercent = percentOf(usedBytes, totalBytes);
    const reason = alarm.take({ atSeconds, usedPercent, risk: state.forecast.risk });
    return reason && oomAlert(state, reason, thresholdPercent);
  };
}
