import type { Settings } from '../../config/settings.js';
import type { DeviceInfo } from '../../device/types.js';
import { alertBlock } from '../../report/text/lines.js';
import { cleanText } from '../../report/text/text-width.js';
import {
  forecastWords,
  fullWords,
  percentOf,
  percentWords,
  usedOfTotal,
} from '../../report/words.js';
import { isKnown, type Known } from '../../units/known.js';
import { isAtLeast } from '../../watch/diagnosis/risk.js';
import {
  type Alert,
  type Cause,
  type DeviceState,
  type Forecast,
  type Risk,
  risks,
} from '../../watch/types.js';
import { type CliIo, type CommandModule, printJson, textStyle } from '../io.js';
import { percentArgument } from '../options/arguments.js';
import { addWatchOptions, settingsOf, type WatchArguments } from '../options/watch-options.js';
import { watchProgress } from '../screen/progress.js';
import { type Stop, stopOnSignals } from '../stop.js';
import { runWatch, withStop } from '../watching.js';

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

/** One device in the JSON of `plimsoll oom`. */
interface OomDevice extends DeviceInfo {
  readonly usedBytes: Known<number>;
  readonly totalBytes: Known<number>;
  readonly usedPercent: Known<number>;
  readonly aboveThreshold: boolean;
  /** Out of memory is expected within a minute. */
  readonly atRisk: boolean;
  readonly forecast: Forecast;
  readonly cause: Cause;
}

function oomDevice(state: DeviceState, thresholdPercent: number): OomDevice {
  const { usedBytes, totalBytes } = state.latest;
  const usedPercent = percentOf(usedBytes, totalBytes);
  return {
    ...state.info,
    usedBytes,
    totalBytes,
    usedPercent: isKnown(usedPercent) ? Math.round(usedPercent * 10) / 10 : 'unknown',
    aboveThreshold: isKnown(usedPercent) && usedPercent > thresholdPercent,
    atRisk: isAtLeast(state.forecast.risk, 'high'),
    forecast: state.forecast,
    cause: state.cause,
  };
}

/** `gpu:0  87.3 % (122.0 of 139.8 GiB), measured; full in 45 s, ...  ABOVE 85 %`. */
function oomLine(device: OomDevice, thresholdPercent: number): string {
  const use = `${percentWords(device.usedPercent, 1)} (${usedOfTotal(device.usedBytes, device.totalBytes)})`;
  const above = device.aboveThreshold ? `; above ${thresholdPercent} %` : '';
  const risk = device.atRisk ? '; AT RISK' : '';
  return cleanText(
    `${device.id}  ${use}, ${device.provenance}; ${forecastWords(device.forecast)}${above}${risk}`,
  );
}

/** What is told when the alarm goes off, in the shape of every other alert. */
function oomAlert(state: DeviceState, reason: OomAlarmReason, thresholdPercent: number): Alert {
  const { info, latest, forecast } = state;
  const critical = forecast.risk === 'critical';
  return {
    kind: 'out-of-memory-risk',
    state: 'raised',
    severity: critical ? 'critical' : 'warning',
    deviceId: info.id,
    atSeconds: latest.atSeconds,
    epochMs: latest.epochMs,
    message: reason === 'risk-rose' ? forecast.reason : `Memory use passed ${thresholdPercent} %.`,
    recommendations: forecast.recommendations,
    provenance: info.provenance,
  };
}

/** A risk below this is not worth interrupting a person for. */
const leastRisk: Risk = 'medium';
/** A risk must stay lower for this long before its return is news again. */
const calmSeconds = 15;

type OomAlarmReason = 'risk-rose' | 'threshold-passed';

export interface OomReading {
  readonly atSeconds: number;
  readonly usedPercent: number | 'unknown';
  readonly risk: Risk | 'unknown';
}

/**
 * Decides when to speak up about one device: when the risk rises, and when use passes the
 * threshold. Neither repeats while the reading wavers around its limit.
 */
export class OomAlarm {
  readonly #thresholdPercent: number;
  readonly #hysteresisPercent: number;
  #above = false;
  #announced: Risk = 'none';
  #lowerSince: number | undefined;

  constructor(thresholdPercent: number, hysteresisPercent: number) {
    this.#thresholdPercent = thresholdPercent;
    this.#hysteresisPercent = hysteresisPercent;
  }

  take(reading: OomReading): OomAlarmReason | undefined {
    const passed = this.#takeUse(reading.usedPercent);
    const rose = this.#takeRisk(reading.risk, reading.atSeconds);
    if (rose) return 'risk-rose';
    return passed ? 'threshold-passed' : undefined;
  }

  #takeUse(percent: number | 'unknown'): boolean {
    if (percent === 'unknown') return false;
    if (this.#above) {
      this.#above = percent > this.#thresholdPercent - this.#hysteresisPercent;
      return false;
    }
    this.#above = percent > this.#thresholdPercent;
    return this.#above;
  }

  #takeRisk(risk: Risk | 'unknown', atSeconds: number): boolean {
    if (risk === 'unknown') return false;
    if (rank(risk) > rank(this.#announced)) {
      this.#lowerSince = undefined;
      this.#announced = risk;
      return rank(risk) >= rank(leastRisk);
    }
    if (risk === this.#announced) {
      this.#lowerSince = undefined;
      return false;
    }
    this.#lowerSince ??= atSeconds;
    if (atSeconds - this.#lowerSince >= calmSeconds) {
      this.#announced = risk;
      this.#lowerSince = undefined;
    }
    return false;
  }
}

function rank(risk: Risk): number {
  return risks.indexOf(risk);
}
