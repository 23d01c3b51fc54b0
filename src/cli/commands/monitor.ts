import { hostname } from 'node:os';
import type { Settings } from '../../config/settings.js';
import { leakWords, sampleLine } from '../../report/text/lines.js';
import { type ThemeName, themeNames } from '../../report/text/spans.js';
import { cleanText } from '../../report/text/text-width.js';
import { formatBytes } from '../../units/bytes.js';
import { isKnown } from '../../units/known.js';
import type { DeviceState } from '../../watch/types.js';
import { type CliIo, type CommandContext, type CommandModule, printJson } from '../io.js';
import { monitorOnScreen } from '../monitor/monitor-screen.js';
import { oneOfArgument } from '../options/arguments.js';
import { addWatchOptions, settingsOf, type WatchArguments } from '../options/watch-options.js';
import { type Stop, stopOnSignals } from '../stop.js';
import { runWatch, withStop } from '../watching.js';

interface MonitorArguments extends WatchArguments {
  readonly all?: boolean;
  readonly once?: boolean;
  readonly theme?: ThemeName;
}

/** A log that is read by people, or by grep, has no use for more than this. */
const leastLineSeconds = 1;

export const monitorCommand: CommandModule = {
  define(command, context) {
    addWatchOptions(command, '0')
      .option(
        '--all',
        'all devices, even those the configuration leaves out; plain output also lists every process and leak',
      )
      .option('--once', 'print one reading of each device and exit')
      .option(
        '--theme <name>',
        `colours of the screen: ${themeNames.join(', ')} (terminal)`,
        oneOfArgument('--theme', themeNames),
      )
      .addHelpText(
        'after',
        `
On a terminal this is a live screen: h shows its keys, q or Ctrl-C leaves. Processes can be sorted,
filtered, shown as a tree, and ended after you confirm; the mouse works. Elsewhere (a pipe, a file, TERM=dumb) it
prints one plain line for each device in each interval, at most one a second. With --json it prints
one document at its end, the same as the report of "plimsoll profile". NO_COLOR is honoured.

Examples:
  plimsoll monitor
  plimsoll monitor --all --duration 300 > memory.log
  plimsoll monitor --simulate leak
  plimsoll monitor --interval 1 --theme colour-blind`,
      )
      .action(
        context.action((given: MonitorArguments) =>
          withStop(stopOnSignals([context.io.stdout.closed]), (stop) =>
            monitor(given, context, stop),
          ),
        ),
      );
  },
};

async function monitor(
  given: MonitorArguments,
  context: CommandContext,
  stop: Stop,
): Promise<number> {
  const { io, version } = context;
  const chosen = await settingsOf(given, io);
  const settings = given.all ? { ...chosen, devices: given.devices ?? [] } : chosen;
  const durationSeconds = given.duration ?? 0;
  const watch = { settings, io, signal: stop.signal, durationSeconds };
  if (io.stdout.isTerminal && !given.json && !given.once) {
    await monitorOnScreen({
      ...watch,
      stop,
      version,
      hostname: hostname(),
      theme: given.theme ?? 'terminal',
    });
    return stop.interruptedBy ?? 0;
  }
  const show = given.json ? undefined : plainLines(settings, given.all === true, io);
  const watching = await runWatch({
    ...watch,
    // One tick is one look, however long the interval is.
    durationSeconds: given.once ? settings.intervalSeconds : durationSeconds,
    onEvent: (event) => {
      if (event.type === 'sample') show?.(event.state);
    },
  });
  if (given.json) printJson(io, watching.report(version, stop.interruptedBy !== undefined));
  return stop.interruptedBy ?? 0;
}

/** One line for each device, in each interval or second. */
function plainLines(
  { intervalSeconds }: Settings,
  all: boolean,
  io: CliIo,
): (state: DeviceState) => void {
  const every = Math.max(leastLineSeconds, intervalSeconds);
  const next = new Map<string, number>();
  return (state) => {
    const { id } = state.info;
    const due = next.get(id) ?? 0;
    // Half an interval of grace: a sample that is a little early is still the one of its second.
    if (state.latest.atSeconds < due - intervalSeconds / 2) return;
    next.set(id, Math.max(due, state.latest.atSeconds - every) + every);
    io.stdout.write(`${sampleLine(state)}\n`);
    if (all) for (const line of detailLines(state)) io.stdout.write(`${line}\n`);
  };
}

function detailLines(state: DeviceState): string[] {
  const when = `${new Date(state.latest.epochMs).toISOString()} ${state.info.id}`;
  const processes = isKnown(state.processes) ? state.processes : [];
  const lines = [
    ...(state.leak.found === true ? [`${when} leak: ${leakWords(state.leak)}`] : []),
    ...[...state.processLeaks].map(
      ([pid, leak]) => `${when} leak in process ${pid}: ${leakWords(leak)}`,
    ),
    ...processes.map(
      ({ pid, name, usedBytes }) => `${when} process ${pid} ${formatBytes(usedBytes)} ${name}`,
    ),
  ];
  return lines.map(cleanText);
}
