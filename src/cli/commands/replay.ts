import { createInterface } from 'node:readline';
import { setImmediate } from 'node:timers/promises';
import { defaultSettings } from '../../config/settings.js';
import {
  type RecordedTrace,
  readRecordedTrace,
  type TraceRow,
} from '../../device/recorded-trace.js';
import { Failure } from '../../failure.js';
import { type ReplayTrace, replayText } from '../../report/text/lines.js';
import { cleanText } from '../../report/text/text-width.js';
import { isKnown, type Known } from '../../units/known.js';
import { createForecaster, type Forecaster } from '../../watch/diagnosis/forecast.js';
import { defaultCosts, type ForecastCosts } from '../../watch/diagnosis/probability.js';
import { type Replay, replaySteps } from '../../watch/diagnosis/replay.js';
import type { MemoryPoint } from '../../watch/types.js';
import { type CliIo, type CommandModule, printJson, textStyle } from '../io.js';
import { type Announce, showBusy } from '../screen/progress.js';

interface ReplayArguments {
  readonly probabilities?: boolean;
  readonly follow?: boolean;
  readonly device?: string;
  readonly json?: boolean;
}

export const replayCommand: CommandModule = {
  define(command, context) {
    command
      .argument(
        '<file>',
        'a file from "plimsoll profile --output" or "--record", or a trace of your own',
      )
      .option('--device <id>', 'which device of the profile, such as gpu:0')
      .option('--probabilities', 'also how likely the end was at each time (with --json)')
      .option('--follow', 'with "-" as the file: answer each reading on stdin, for programs')
      .option('--json', 'print one JSON document on stdout')
      .addHelpText(
        'after',
        `
The series goes through the same forecaster as live samples, at the times recorded; it never looks
ahead. "high" means: out of memory is expected within 60 s; "critical": within 15 s.
A trace of your own is {"capacity":BYTES,"columns":["seconds","allocated","reserved","device_used"],
"rows":[[0,1,2,3]]}; of the three columns of bytes one is enough.
With --follow, each line of stdin is {"id":NAME,"seconds":..,"limitBytes":..,"heldBytes":..,"liveBytes":..} and is
answered by a line {"id":NAME,"forecast":..}; each id is a series of its own. The SDK asks in this way.

Examples:
  plimsoll replay profile.json
  plimsoll replay profile.json --device gpu:1
  plimsoll replay trace.json --json --probabilities`,
      )
      .action(
        context.action((path: string, given: ReplayArguments) => replay(path, given, context.io)),
      );
  },
};

async function replay(path: string, given: ReplayArguments, io: CliIo): Promise<number> {
  if (given.follow) return follow(path, io);
  const { trace, answer } = await showBusy(io, `Reading ${path}`, async (announce) => {
    const found = await readRecordedTrace(path, given.device);
    return { trace: found, answer: await replayWith(found, announce, given) };
  });
  if (given.json) {
    printJson(io, answer);
    return 0;
  }
  const { loadLinePercent } = defaultSettings;
  const size = { columns: io.stdout.columns(), rows: 12 };
  const options = { ...size, loadLinePercent, style: textStyle(io) };
  if (trace.origin !== undefined) io.stdout.write(`${cleanText(trace.origin)}\n`);
  io.stdout.write(`${replayText(answer, drawable(trace), options)}\n`);
  return 0;
}

/** With a pause after each piece, in which the line is drawn. */
async function replayWith(
  trace: RecordedTrace,
  announce: Announce,
  { probabilities }: ReplayArguments,
): Promise<Replay> {
  const steps = replaySteps(trace, { probabilities });
  for (;;) {
    const { done, value } = steps.next();
    if (done === true) return value;
    announce(`Replaying ${trace.rows.length} rows`, value);
    await setImmediate();
  }
}

/** A device has one series; more ids than these are no devices. */
const maxFollowed = 256;

/** Readings as JSON lines, each answered at once: programs ask the one forecaster that there is. */
async function follow(path: string, io: CliIo): Promise<number> {
  if (path !== '-') {
    throw new Failure({
      kind: 'input',
      code: 'bad-follow',
      fact: `--follow reads stdin, not ${path}.`,
      next: 'Write - in the place of the file.',
    });
  }
  const forecasters = new Map<string, Forecaster>();
  for await (const line of createInterface({ input: process.stdin })) {
    const reading = readingOf(line);
    if (reading === undefined) {
      io.stdout.write(
        '{"error":"a reading is an object with id, seconds, limitBytes, heldBytes"}\n',
      );
      continue;
    }
    const { id, missedEndCost, falseAlarmCost, ...point } = reading;
    const costs = { missedEndCost, falseAlarmCost };
    const forecaster = forecasters.get(id) ?? createForecaster(undefined, costs);
    forecasters.delete(id);
    forecasters.set(id, forecaster);
    const [oldest] = forecasters.keys();
    if (forecasters.size > maxFollowed && oldest !== undefined) forecasters.delete(oldest);
    forecaster.add(point);
    io.stdout.write(`${JSON.stringify({ id, forecast: forecaster.forecast() })}\n`);
  }
  return 0;
}

/** A line of stdin: the first of an id says what wrong answers cost. */
type FollowedReading = MemoryPoint & ForecastCosts & { readonly id: string };

function readingOf(line: string): FollowedReading | undefined {
  let read: unknown;
  try {
    read = JSON.parse(line);
  } catch {
    return undefined;
  }
  if (typeof read !== 'object' || read === null) return undefined;
  const fields: Record<string, unknown> = { ...read };
  const { id, seconds, limitBytes, heldBytes, liveBytes } = fields;
  if (typeof id !== 'string' || typeof seconds !== 'number') return undefined;
  if (typeof limitBytes !== 'number' || typeof heldBytes !== 'number') return undefined;
  const cost = (name: keyof ForecastCosts): number => {
    const value = fields[name];
    return typeof value === 'number' && value > 0 ? value : defaultCosts[name];
  };
  const costs = { missedEndCost: cost('missedEndCost'), falseAlarmCost: cost('falseAlarmCost') };
  const point = { id, seconds, limitBytes, heldBytes, ...costs };
  return typeof liveBytes === 'number' ? { ...point, liveBytes } : point;
}

/** Columns to draw; where only the allocator was recorded, what it held is what was used. */
function drawable({ capacityBytes, rows }: RecordedTrace): ReplayTrace {
  const column = (value: (row: TraceRow) => Known<number>) =>
    rows.map((row) => {
      const bytes = value(row);
      return isKnown(bytes) ? bytes : Number.NaN;
    });
  const allocatedBytes = column((row) => row.allocatedBytes);
  return {
    capacityBytes,
    seconds: rows.map(({ seconds }) => seconds),
    usedBytes: column(usedBytes),
    ...(allocatedBytes.every(Number.isNaN) ? {} : { allocatedBytes }),
  };
}

function usedBytes(row: TraceRow): Known<number> {
  return [row.reservedBytes, row.deviceUsedBytes, row.allocatedBytes].find(isKnown) ?? 'unknown';
}
