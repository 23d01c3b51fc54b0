import { openDevices } from '../../config/open-devices.js';
import { defaultSettings, type Settings } from '../../config/settings.js';
import { Failure } from '../../failure.js';
import { type Paint, paintLine, type Span, span, type TextStyle } from '../../report/text/spans.js';
import { wrapText } from '../../report/text/text-width.js';
import { count } from '../../report/words.js';
import { type Check, type CheckState, examine, isHealthy } from '../advice/doctor.js';
import { type CliIo, type CommandModule, printJson, textStyle } from '../io.js';
import { settingsOf } from '../options/watch-options.js';
import { showBusy } from '../screen/progress.js';
import { type Stop, stopOnSignals } from '../stop.js';
import { withStop } from '../watching.js';

interface DoctorArguments {
  readonly python?: string;
  readonly config?: string;
  readonly json?: boolean;
}

export const doctorCommand: CommandModule = {
  define(command, context) {
    command
      .option(
        '--python <path>',
        'Python interpreter of your project (default: the active environment)',
      )
      .option('--config <file>', 'configuration file (plimsoll.config.json)')
      .option('--json', 'print one JSON document on stdout')
      .addHelpText(
        'after',
        `
Tries what plimsoll needs on this machine. Exit code 1 if something that is needed does not work.

Examples:
  plimsoll doctor
  plimsoll doctor --python .venv/bin/python
  plimsoll doctor --json | jq '.checks[] | select(.state != "ok")'`,
      )
      .action(
        context.action((given: DoctorArguments) =>
          withStop(stopOnSignals([context.io.stdout.closed]), (stop) =>
            doctor(given, context.io, stop),
          ),
        ),
      );
  },
};

async function doctor(given: DoctorArguments, io: CliIo, stop: Stop): Promise<number> {
  const configuration = await checkConfiguration(given, io);
  const discovery = await openDevices(configuration.settings);
  try {
    const found = await showBusy(io, 'Trying what plimsoll needs', () =>
      examine({
        environment: io.environment,
        folder: io.folder,
        python: given.python,
        discovery,
        signal: stop.signal,
      }),
    );
    if (stop.interruptedBy !== undefined) return stop.interruptedBy;
    const checks = [...found, configuration.check];
    const ok = isHealthy(checks);
    if (given.json) printJson(io, { ok, checks });
    else {
      const options = { columns: io.stdout.columns(), style: textStyle(io) };
      io.stdout.write(`${doctorText(checks, options)}\n`);
    }
    return ok ? 0 : 1;
  } finally {
    discovery.close();
  }
}

/** A configuration that cannot be read is one more finding, and must not hide the others. */
async function checkConfiguration(
  given: DoctorArguments,
  io: CliIo,
): Promise<{ readonly settings: Settings; readonly check: Check }> {
  const name = 'configuration';
  try {
    const settings = await settingsOf(given, io);
    return { settings, check: { name, state: 'ok', fact: 'The configuration is valid.' } };
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    const { fact, next } = error;
    return { settings: defaultSettings, check: { name, state: 'broken', fact, next } };
  }
}

const paints: Readonly<Record<CheckState, Paint>> = {
  ok: 'green',
  limited: 'yellow',
  broken: 'red',
  absent: 'dim',
};
const stateWidth = 9;

/**
 * One block a check: its state, its name and the fact; below those that are not `ok`, what to do.
 *
 * @example
 * doctorText(checks, { columns: 80, style: { colour: false, unicode: true } });
 */
function doctorText(
  checks: readonly Check[],
  options: { readonly columns: number; readonly style: TextStyle },
): string {
  const nameWidth = Math.max(0, ...checks.map(({ name }) => name.length)) + 2;
  const indent = ' '.repeat(stateWidth + nameWidth);
  const lines = checks.flatMap(({ name, state, fact, next }): Span[][] => {
    const [first = '', ...rest] = wrapText(fact, options.columns, indent);
    return [
      [
        span(state.padEnd(stateWidth), paints[state]),
        span(name.padEnd(nameWidth), 'bold'),
        span(first.slice(indent.length)),
      ],
      ...rest.map((line) => [span(line)]),
      ...wrapText(next ?? '', options.columns, `${indent}-> `, `${indent}   `).map((line) => [
        span(line, 'cyan'),
      ]),
    ];
  });
  return [...lines, [], [span(verdict(checks), 'bold')]]
    .map((line) => paintLine(line, Number.POSITIVE_INFINITY, options.style))
    .join('\n');
}

function verdict(checks: readonly Check[]): string {
  const broken = checks.filter(({ state }) => state === 'broken').length;
  if (!isHealthy(checks)) {
    return `This installation does not work: ${count(broken, 'check')} failed.`;
  }
  const limited = checks.filter(({ state }) => state === 'limited').length;
  return limited === 0
    ? 'This installation works.'
    : `This installation works, with ${count(limited, 'limitation')}.`;
}
