import type { ProgramPlan } from '../../plan/programs/plan-program.js';
import { formatBytes } from '../../units/bytes.js';
import { shellWords } from '../../units/shell-words.js';
import { batchWords, fitWords, neededBytes, planVerdict } from '../plan-words.js';
import { count } from '../words.js';
import { partLine, phaseLines, stackedBar } from './estimate-text.js';
import { noteLines } from './note-lines.js';
import { paintLine, type Span, span, type TextStyle } from './spans.js';
import { cleanText } from './text-width.js';
import { wrapText } from './wrap-text.js';

const paints = { yes: 'green', barely: 'yellow', no: 'red' } as const;
const widestBar = 60;

/**
 * A plan for a program: whether it fits, the command to run, what then fills the memory, and what
 * other batches take.
 *
 * @example
 * programPlanText(plan, { columns: 80, style: { colour: false, unicode: true } });
 */
export function programPlanText(
  plan: ProgramPlan,
  { columns, style }: { readonly columns: number; readonly style: TextStyle },
): string {
  const { estimate, settings, budget } = plan;
  const same = { ...plan, givesUp: [], concession: 'speed', relativeCost: 1 } as const;
  const verdict = planVerdict(same, budget);
  const width = Math.min(widestBar, Math.max(10, columns - 4));
  const { batch, accumulation } = settings;
  const lines: Span[][] = [
    ...wrapText(verdict.sentence, columns).map((line) => [span(line, paints[verdict.fits])]),
    [],
    [span(plan.fits ? 'Set this:' : 'With this:', 'bold')],
    [span(`  ${'batch'.padEnd(14)}`), span(String(batch), 'bold')],
    [
      span(`  ${'accumulation'.padEnd(14)}`),
      span(String(accumulation), 'bold'),
      span(`  ${count(batch * accumulation, 'sample')} a step`, 'dim'),
    ],
    [],
    [span(`At the peak (estimated, by ${estimate.method}):`, 'bold')],
    [span('  '), ...stackedBar(estimate.breakdown, width, style)],
    ...estimate.breakdown.map((entry) => partLine(entry, estimate.peak.deviceBytes, style)),
    ...phaseLines(estimate),
    ...triedLines(plan),
    [],
  ];
  const noted = [...plan.notes, ...estimate.notes]
    .flatMap((note) => noteLines(note, columns))
    .map((line) => paintLine([span(line)], Infinity, style));
  // To be copied, so never cut.
  const command = ['', 'Run it with:', '', `  ${cleanText(shellWords(plan.command))}`];
  return [
    ...lines.map((line) => paintLine(line, columns, style)),
    ...noted,
    ...(plan.fits ? command : []),
  ].join('\n');
}

function triedLines({ alternatives, budget }: ProgramPlan): Span[][] {
  if (alternatives.length === 0) return [];
  return [
    [],
    [span('Other batches that were traced:', 'bold')],
    ...alternatives.map((option) => {
      const fits = fitWords(option);
      return [
        span(`  ${batchWords(option.settings).padEnd(12)}`),
        span(formatBytes(neededBytes(option, budget)).padStart(10), 'bold'),
        span(`  ${answers[fits]}`, paints[fits]),
      ];
    }),
  ];
}

const answers = { yes: 'fits', barely: 'should fit', no: 'does not fit' } as const;
