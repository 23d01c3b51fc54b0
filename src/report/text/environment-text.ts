import type {
  EnvironmentContext,
  EnvironmentFinding,
  EnvironmentSetting,
} from '../../plan/environment/types.js';
import { count } from '../words.js';
import { paintLine, type Span, span, type TextStyle } from './spans.js';
import { cleanText, cutText } from './text-width.js';

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
