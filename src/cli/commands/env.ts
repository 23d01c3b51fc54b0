import { availableParallelism } from 'node:os';
import { loadSettings } from '../../config/load.js';
import type { FoundGpu } from '../../estimate/cards/gpu-at-hand.js';
import { assumedContext, type Gpu, knownGpus } from '../../estimate/cards/gpu-table.js';
import { findGpu } from '../../estimate/cards/gpus.js';
import { Failure } from '../../failure.js';
import { checkEnvironment } from '../../plan/environment/check.js';
import { dotenvLines, shellLines } from '../../plan/environment/formats.js';
import { environmentSettings } from '../../plan/environment/rules.js';
import {
  type EnvironmentContext,
  type EnvironmentFinding,
  type EnvironmentSetting,
  environmentModes,
  type MemoryBudget,
} from '../../plan/environment/types.js';
import { paintLine, type Span, span, type TextStyle } from '../../report/text/spans.js';
import { cleanText, cutText } from '../../report/text/text-width.js';
import { count } from '../../report/words.js';
import { isKnown } from '../../units/known.js';
import { type CliIo, type CommandModule, printJson, textStyle } from '../io.js';
import { oneOfArgument, sizeArgument } from '../options/arguments.js';
import { gpusHere } from '../options/workload-options.js';

const formats = ['text', 'shell', 'dotenv', 'json'] as const;

interface EnvArguments {
  readonly mode: (typeof environmentModes)[number];
  readonly format?: (typeof formats)[number];
  readonly gpu?: string;
  readonly memory?: number;
  readonly check?: boolean;
  readonly config?: string;
  readonly json?: boolean;
}

export const envCommand: CommandModule = {
  define(command, context) {
    command
      .requiredOption(
        '--mode <mode>',
        'production or debug',
        oneOfArgument('--mode', environmentModes),
      )
      .option(
        '--format <format>',
        'output format: text, shell, dotenv or json (text)',
        oneOfArgument('--format', formats),
      )
      .option('--gpu <name>', 'GPU model, such as h100 or 4090 (the one in this machine)')
      .option('--memory <size>', 'memory limit of each process', sizeArgument('--memory'))
      .option('--check', 'check the current environment; exit code 1 if something must change')
      .option('--config <file>', 'configuration file (plimsoll.config.json)')
      .option('--json', 'print one JSON document on stdout')
      .addHelpText(
        'after',
        `
Examples:
  plimsoll env --mode production
  source <(plimsoll env --mode debug --format shell)
  plimsoll env --mode production --check && python train.py`,
      )
      .action(context.action((given: EnvArguments) => env(given, context.io)));
  },
};

async function env(given: EnvArguments, io: CliIo): Promise<number> {
  const format = formatOf(given);
  const context = await contextOf(given, io);
  const options = { columns: io.stdout.columns(), style: textStyle(io) };
  const { mode, vendor, cores, gpus } = context;
  if (given.check) {
    const findings = checkEnvironment(io.environment, context);
    const ok = findings.every(({ severity }) => severity !== 'required');
    if (format === 'json') printJson(io, { mode, ok, vendor, cores, gpus, findings });
    else io.stdout.write(`${findingsText(findings, context, options)}\n`);
    return ok ? 0 : 1;
  }
  const settings = environmentSettings(context);
  if (format === 'json') printJson(io, { mode, vendor, cores, gpus, settings });
  else if (format === 'shell') io.stdout.write(shellLines(settings));
  else if (format === 'dotenv') io.stdout.write(dotenvLines(settings));
  else io.stdout.write(`${settingsText(settings, context, options)}\n`);
  return 0;
}

function formatOf({ format, json, check }: EnvArguments): (typeof formats)[number] {
  const chosen = json ? 'json' : (format ?? 'text');
  if (json && format !== undefined && format !== 'json') {
    throw badUsage(`--json and --format ${format} contradict each other.`);
  }
  if (check && (chosen === 'shell' || chosen === 'dotenv')) {
    throw badUsage(`--check answers as text or json, not as ${chosen}.`);
  }
  return chosen;
}

function badUsage(fact: string): Failure {
  return new Failure({ kind: 'input', code: 'bad-usage', fact, next: 'Leave one of them out.' });
}

/** The machine at hand, unless the options name another card. */
async function contextOf(given: EnvArguments, io: CliIo): Promise<EnvironmentContext> {
  const { folder, environment } = io;
  const settings = await loadSettings({ folder, environment, configPath: given.config });
  const card = given.gpu === undefined ? undefined : findGpu(given.gpu, settings.gpus);
  const found = await gpusHere(settings);
  const vendor =
    card?.vendor ?? (found.some(({ source }) => source === 'amdgpu') ? 'amd' : 'nvidia');
  return {
    mode: given.mode,
    vendor,
    cores: availableParallelism(),
    gpus: found.length,
    budget: given.memory === undefined ? undefined : budgetOf(given.memory, card, found),
  };
}

/** The share holds for every card, so the largest one decides what it may be. */
function budgetOf(
  memoryBytes: number,
  card: Gpu | undefined,
  found: readonly FoundGpu[],
): MemoryBudget {
  if (card) {
    const { capacityBytes, context } = card;
    return { memoryBytes, capacityBytes, contextBytes: context.highBytes };
  }
  const [largest] = found
    .flatMap(({ name, totalBytes }) => (isKnown(totalBytes) ? [{ name, totalBytes }] : []))
    .toSorted((a, b) => b.totalBytes - a.totalBytes);
  if (largest === undefined) {
    throw new Failure({
      kind: 'input',
      code: 'unknown-capacity',
      fact: '--memory needs the size of the GPU, and no GPU was found here.',
      next: 'Name the GPU with --gpu, such as --gpu h100.',
    });
  }
  const known = knownGpus.find(({ name }) => name === largest.name);
  const contextBytes = (known?.context ?? assumedContext).highBytes;
  return { memoryBytes, capacityBytes: largest.totalBytes, contextBytes };
}

export interface EnvironmentTextOptions {
  readonly columns: number;
  readonly style: TextStyle;
}

/** A value is shown so that a person knows it again, not to be read in full. */
const shownValue = 60;
const indent = 4;

const groups = [
  ['set', 'Set:'],
  ['unset', 'Not to be set:'],
  ['consider', 'Worth a thought:'],
] as const;

/**
 * What to set, for people: each variable with its value, and below it why.
 *
 * @example
 * settingsText(settings, context, { columns: 80, style: { colour: false, unicode: true } });
 */
export function settingsText(
  settings: readonly EnvironmentSetting[],
  context: EnvironmentContext,
  options: EnvironmentTextOptions,
): string {
  const width = Math.max(0, ...settings.map(({ name }) => name.length));
  const lines: Span[][] = [[span(heading(context))]];
  for (const [action, title] of groups) {
    const group = settings.filter((setting) => setting.action === action);
    if (group.length > 0) lines.push([], [span(title, 'bold')]);
    for (const setting of group) {
      lines.push(nameLine(setting, width), ...reasonLines(setting.reason, options.columns));
    }
  }
  return draw(lines, options);
}

/**
 * What a check found, for people; what must change stands first.
 *
 * @example
 * findingsText([], context, { columns: 80, style: { colour: false, unicode: true } });
 * // 'The environment is fit for production: nothing must change.'
 */
export function findingsText(
  findings: readonly EnvironmentFinding[],
  context: EnvironmentContext,
  options: EnvironmentTextOptions,
): string {
  const required = findings.filter(({ severity }) => severity === 'required').length;
  const verdict =
    required === 0
      ? `The environment is fit for ${context.mode}: nothing must change.`
      : `The environment is not fit for ${context.mode}: ${count(required, 'variable')} must change.`;
  const lines = findings.flatMap((finding) => [
    [],
    [
      span(finding.severity === 'required' ? 'must change  ' : 'could change ', paintOf(finding)),
      span(finding.name, 'cyan'),
      span(`  ${nowWords(finding)} (${finding.kind})`),
    ],
    ...reasonLines(finding.reason, options.columns),
    [span(`${' '.repeat(indent)}${cleanText(finding.fix)}`, 'bold')],
  ]);
  return draw([[span(verdict)], ...lines], options);
}

function heading({ mode, vendor, gpus, cores }: EnvironmentContext): string {
  const maker = vendor === 'amd' ? 'AMD' : 'NVIDIA';
  const cards = gpus === 0 ? `one GPU of ${maker} is assumed` : `${count(gpus, 'GPU')} of ${maker}`;
  return `For ${mode} (${cards}; ${count(cores, 'core')}).`;
}

function nameLine(setting: EnvironmentSetting, width: number): Span[] {
  if (setting.action === 'unset') return [span('  '), span(setting.name, 'cyan')];
  return [span('  '), span(setting.name.padEnd(width), 'cyan'), span(`  ${setting.value}`)];
}

function paintOf({ severity }: EnvironmentFinding): 'red' | 'yellow' {
  return severity === 'required' ? 'red' : 'yellow';
}

function nowWords({ value }: EnvironmentFinding): string {
  return value === undefined ? 'is not set' : `is "${cutText(cleanText(value), shownValue)}"`;
}

/** The reason over as many lines as it needs. */
function reasonLines(reason: string, columns: number): Span[][] {
  const room = Math.max(20, columns - indent);
  const lines: string[] = [];
  for (const word of cleanText(reason).split(' ')) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + 1 + word.length <= room) {
      lines[lines.length - 1] = `${last} ${word}`;
    } else {
      lines.push(word);
    }
  }
  return lines.map((line) => [span(' '.repeat(indent)), span(line, 'dim')]);
}

/** A command to copy must not be cut, so lines may be wider than the terminal. */
function draw(lines: readonly (readonly Span[])[], { style }: EnvironmentTextOptions): string {
  return lines.map((line) => paintLine(line, Number.POSITIVE_INFINITY, style)).join('\n');
}
