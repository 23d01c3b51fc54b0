import type { Plan, PlanOption } from '../../plan/fit/types.js';
import type { ProgramPlan } from '../../plan/programs/plan-program.js';
import { asPython, type FromPretrainedArguments } from '../../plan/quantization/bits-and-bytes.js';
import { formatBytes } from '../../units/bytes.js';
import { shellWords } from '../../units/words.js';
import {
  batchWords,
  fitWords,
  optionCells,
  optionHeads,
  othersHeading,
  type PlanBudgetWords,
  planVerdict,
  settingRows,
  settingsHeading,
} from '../plan-words.js';
import { count } from '../words.js';
import { partLine, phaseLines, stackedBar } from './estimate-text.js';
import { paintLine, type Span, span, type TextStyle } from './spans.js';
import { cleanText, noteLines, wrapText } from './text-width.js';

export interface PlanTextOptions {
  readonly budget: PlanBudgetWords;
  readonly gpu: { readonly name: string };
  /** How transformers is loadingLines to load the weights, where they are quantized. */
  readonly loading?: FromPretrainedArguments | undefined;
  readonly columns: number;
  readonly style: TextStyle;
  readonly snippet?: PlanSnippet | undefined;
}

/** Lines to paste for the framework of a project, or the formats where none was recognised. */
export type PlanSnippet =
  | {
      readonly name: string;
      readonly file: string;
      readonly text: string;
      /** How the adapters are made, where the plan has some. */
      readonly adapters?: string;
      /** Settings that the lines cannot express, and the place to set them. */
      readonly beside?: string;
    }
  | { readonly formats: readonly string[] };

const verdictPaints = { yes: 'green', barely: 'yellow', no: 'red' } as const;
const widestBar = 60;

/**
 * A plan for people: whether it fits, what to set, what then fills the memory, and what else there
 * is.
 *
 * @example
 * planText(plan, { budget, gpu, columns: 80, style: { colour: false, unicode: true } });
 */
export function planText(plan: Plan, options: PlanTextOptions): string {
  const { budget, columns, style, loading } = options;
  const { estimate, notes } = plan;
  const verdict = planVerdict(plan, budget);
  const width = Math.min(widestBar, Math.max(10, columns - 4));
  const lines: Span[][] = [
    ...wrapText(verdict.sentence, columns).map((line) => [span(line, verdictPaints[verdict.fits])]),
    [],
    [span(`${settingsHeading(plan)}:`, 'bold')],
    ...settingRows(plan.settings).map(([name, value, more]) => [
      span(`  ${name.padEnd(14)}`),
      span(value, 'bold'),
      span(more === '' ? '' : `  ${more}`, 'dim'),
    ]),
    ...plan.givesUp.map((given) => [span(`  given up: ${given}`, 'yellow')]),
    [],
    [span(`At the peak (estimated, by ${estimate.method}):`, 'bold')],
    [span('  '), ...stackedBar(estimate.breakdown, width, style)],
    ...estimate.breakdown.map((entry) => partLine(entry, estimate.peak.deviceBytes, style)),
    ...otherLines(plan),
    ...(notes.length + estimate.notes.length > 0 ? [[]] : []),
  ];
  const drawn = lines.map((line) => paintLine(line, columns, style));
  const noted = [...notes, ...estimate.notes]
    .flatMap((note) => noteLines(note, columns))
    .map((line) => paintLine([span(line)], Infinity, style));
  // To be copied, so never cut.
  const loadingLines = loading ? ['', 'Load it with:', '', asPython(loading).trimEnd()] : [];
  return [...drawn, ...noted, ...loadingLines, ...snippetLines(options.snippet)].join('\n');
}

function snippetLines(snippet: PlanSnippet | undefined): string[] {
  if (snippet === undefined) return [];
  if ('formats' in snippet) {
    return ['', `Ready to paste: add --format ${snippet.formats.join(', ')}.`];
  }
  const { name, file, text, adapters, beside } = snippet;
  return [
    '',
    cleanText(`For ${name}, which ${file} uses:`),
    '',
    ...(adapters === undefined ? [] : [adapters, '']),
    text,
    ...(beside === undefined ? [] : ['', beside]),
  ];
}

/** Words stand to the left, figures to the right. */
const isWords = [true, false, false, false, true] as const;

function otherLines(plan: Plan): Span[][] {
  const { alternatives, estimate } = plan;
  if (alternatives.length === 0) return [];
  const rows = alternatives.map((option) => optionCells(option, estimate));
  const widths = optionHeads.map((head, at) =>
    Math.max(head.length, ...rows.map((cells) => cells[at]?.length ?? 0)),
  );
  const padded = (cells: readonly string[]) =>
    cells.map((cell, at) =>
      isWords[at] ? cell.padEnd(widths[at] ?? 0) : cell.padStart(widths[at] ?? 0),
    );
  const lines = alternatives.map((option, at) => optionLines(option, padded(rows[at] ?? [])));
  return [
    [],
    [span(`${othersHeading(plan)}:`, 'bold')],
    [span(`  ${padded(optionHeads).join('  ').trimEnd()}`, 'dim')],
    ...lines.flat(),
  ];
}

function optionLines(option: PlanOption, [fits = '', ...rest]: readonly string[]): Span[][] {
  const lines = option.givesUp.map((one) => [span(`        gives up: ${one}`, 'dim')]);
  const paint = verdictPaints[fitWords(option)];
  lines.unshift([span('  '), span(fits, paint), span(`  ${rest.join('  ').trimEnd()}`)]);
  return lines;
}

const paints = { yes: 'green', barely: 'yellow', no: 'red' } as const;

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

function triedLines({ alternatives }: ProgramPlan): Span[][] {
  if (alternatives.length === 0) return [];
  return [
    [],
    [span('Other batches that were traced:', 'bold')],
    ...alternatives.map((option) => {
      const fits = fitWords(option);
      return [
        span(`  ${batchWords(option.settings).padEnd(12)}`),
        span(formatBytes(option.peak.leastCapacityBytes).padStart(10), 'bold'),
        span(`  ${answers[fits]}`, paints[fits]),
      ];
    }),
  ];
}

const answers = { yes: 'fits', barely: 'should fit', no: 'does not fit' } as const;
