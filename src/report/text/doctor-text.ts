import { type Check, type CheckState, isHealthy } from '../../doctor/checks.js';
import { count } from '../words.js';
import { type Paint, paintLine, type Span, span, type TextStyle } from './spans.js';
import { wrapText } from './wrap-text.js';

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
export function doctorText(
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
