import type { RankPoint } from '../../estimate/over-ranks.js';
import {
  type Estimate,
  type Part,
  type PartBytes,
  parts,
  type Saving,
} from '../../estimate/types.js';
import { fitOf } from '../../plan/fit/fit.js';
import { formatBytes } from '../../units/bytes.js';
import {
  answerMeaning,
  answersOf,
  type EstimateGpu,
  makesItFit,
  moduleRows,
  partLooks,
  peakHeading,
  type Recommended,
  recommendedWords,
  savingsBasis,
  settingOptions,
  spillPointWords,
  spillTitle,
  verdictOf,
} from '../estimate-words.js';
import { percentWords } from '../words.js';
import { merge } from './charts.js';
import { paintLine, type Span, span, type TextStyle } from './spans.js';
import { cleanText, fitText, noteLines, wrapText } from './text-width.js';

interface EstimateTextOptions {
  readonly gpu: EstimateGpu;
  readonly columns: number;
  readonly style: TextStyle;
  /** How the weights are best held on this card. */
  readonly recommended?: Recommended | undefined;
  /** The command that asks the same with nothing left out. */
  readonly command?: string | undefined;
}

const verdictPaints = { yes: 'green', barely: 'yellow', no: 'red' } as const;
const widestBar = 60;
const nameWidth = Math.max(...parts.map((part) => part.length));
const sizeWidth = 11;
const widestModule = 60;
/** The columns beside the name of a module: indent, a space, its size. */
const besideModule = 18;

/**
 * An estimate for people: the four answers, what fills the device at the peak as a stacked bar, and
 * what other settings would save.
 *
 * @example
 * estimateText(estimate, { gpu, columns: 80, style: { colour: false, unicode: true } });
 */
export function estimateText(estimate: Estimate, options: EstimateTextOptions): string {
  const { peak, breakdown, notes } = estimate;
  const { gpu, columns, style, command } = options;
  const verdict = verdictOf(estimate, gpu);
  const heading = [span(`${cleanText(peakHeading(estimate, gpu))}:`, 'bold')];
  // It can be pasted back, so it is never cut.
  const asked = command === undefined ? [] : [[span(`  ${cleanText(command)}`, 'dim')], []];
  const lines: Span[][] = [
    ...answersOf(estimate, gpu).map((answer) => [
      span(`  ${answer.name.padEnd(nameWidth + 2)}`),
      span(formatBytes(answer.bytes).padStart(sizeWidth), 'bold'),
      span(`  ${answerMeaning(estimate, answer)}`, 'dim'),
    ]),
    [],
    [span('At the peak:', 'bold')],
    [span('  '), ...stackedBar(breakdown, Math.min(widestBar, Math.max(10, columns - 4)), style)],
    ...breakdown.flatMap((entry) =>
      [partLine(entry, peak.deviceBytes, style)].concat(moduleLines(entry, columns)),
    ),
    ...phaseLines(estimate),
    [],
    ...wrapText(verdict.sentence, columns).map((line) => [span(line, verdictPaints[verdict.fits])]),
    ...recommendedLines(options),
    ...savingLines(estimate, gpu),
    ...spillLines(estimate),
    ...(notes.length > 0 ? [[]] : []),
  ];
  const drawn = [
    paintLine(heading, columns, style),
    ...asked.map((line) => paintLine(line, Infinity, style)),
    ...lines.map((line) => paintLine(line, columns, style)),
  ];
  // A note must not be cut: it may be what matters most.
  const noted = notes
    .flatMap((note) => noteLines(note, columns))
    .map((line) => paintLine([span(line)], Infinity, style));
  return [...drawn, ...noted].join('\n');
}

function recommendedLines({ recommended, columns }: EstimateTextOptions): Span[][] {
  if (recommended === undefined) return [];
  return [[], ...wrapText(recommendedWords(recommended), columns).map((line) => [span(line)])];
}

/** What each phase of a program takes. */
export function phaseLines({ phases = [] }: Estimate): Span[][] {
  if (phases.length === 0) return [];
  return [
    [],
    [span('By phase, reserved and allocated:', 'bold')],
    ...phases.map(({ phase, allocatedBytes, reservedBytes, makesPeak }) => [
      span(`  ${phase.padEnd(nameWidth + 2)}`),
      span(formatBytes(reservedBytes).padStart(sizeWidth), 'bold'),
      span(formatBytes(allocatedBytes).padStart(sizeWidth)),
      span(makesPeak ? '  makes the peak' : '', 'dim'),
    ]),
  ];
}

export function partLine({ part, bytes }: PartBytes, whole: number, style: TextStyle): Span[] {
  const { letter, paint } = partLooks[part];
  return [
    span('  '),
    span(cellOf(letter, style), paint),
    span(` ${part.padEnd(nameWidth)}`),
    span(formatBytes(bytes).padStart(sizeWidth)),
    span(`  ${percentWords((bytes / whole) * 100, 1).padStart(6)}`, 'dim'),
  ];
}

/** Whose it is; only for what people can do something about. */
function moduleLines(entry: PartBytes, columns: number): Span[][] {
  const rows = moduleRows(entry);
  const longest = Math.max(0, ...rows.map(({ name }) => name.length));
  const width = Math.max(10, Math.min(longest, widestModule, columns - besideModule));
  return rows.map(({ name, bytes }) => moduleLine(name, bytes, width));
}

function moduleLine(name: string, bytes: number, width: number): Span[] {
  const words = fitText(cleanText(name), width);
  return [span(`      ${words} ${formatBytes(bytes).padStart(10)}`, 'dim')];
}

/** Each part as wide as its share; together exactly `width` cells. */
export function stackedBar(
  breakdown: Estimate['breakdown'],
  width: number,
  style: TextStyle,
): Span[] {
  const whole = breakdown.reduce((sum, { bytes }) => sum + bytes, 0);
  let before = 0;
  return merge(
    breakdown.map(({ part, bytes }) => {
      const start = Math.round((before / whole) * width);
      before += bytes;
      const cells = Math.round((before / whole) * width) - start;
      const { letter, paint } = partLooks[part];
      return span(cellOf(letter, style).repeat(cells), paint);
    }),
  );
}

function cellOf(letter: string, style: TextStyle): string {
  return style.colour && style.unicode ? '█' : letter;
}

const changeWidth = 24;
const savedWidth = 10;
const leastWidth = 16;

/** What other settings would save of the least capacity, one line each; none where it was not asked, or nothing would. */
function savingLines(estimate: Estimate, gpu: EstimateGpu): Span[][] {
  const { savings = [] } = estimate;
  if (savings.length === 0) return [];
  const heads = `  ${''.padEnd(changeWidth)}${'saves'.padStart(savedWidth)}${'least capacity'.padStart(leastWidth)}`;
  return [
    [],
    [span('Ways to save memory', 'bold'), span(` ${savingsBasis(savings)}:`, 'dim')],
    [span(heads, 'dim')],
    ...savings.map((saving) => savingLine(saving, makesItFit(saving, estimate, gpu))),
  ];
}

/** How long a step takes in less memory, the most memory first. */
function spillLines({ spill = [] }: Estimate): Span[][] {
  if (spill.length === 0) return [];
  const points = spill.map((point) => [span(`  ${spillPointWords(point)}`)]);
  return [[], [span(`${spillTitle}:`, 'bold')], ...points];
}

function savingLine(saving: Saving, thenItFits: boolean): Span[] {
  const { change, savesBytes, leastCapacityBytes, settings } = saving;
  const line = [
    span(`  ${change.padEnd(changeWidth)}`),
    span(formatBytes(savesBytes).padStart(savedWidth), 'bold'),
    span(formatBytes(leastCapacityBytes).padStart(leastWidth)),
    span(`  ${settingOptions(settings)}`, 'dim'),
  ];
  return thenItFits ? [...line, span('  then it fits', 'green')] : line;
}

const fitPaints = { surely: 'green', tightly: 'yellow', no: 'red' } as const;
/** Columns beside a bar: the count, the bytes, the verdict. */
const besideBar = 34;

/**
 * What fills a rank against the number of ranks: one bar for each, with the card's memory as a line.
 *
 * @example
 * overRanksText({ parallel: 'fsdp2', gpu, overRanks, notes: [] }, 80, { colour: false, unicode: true });
 */
export function overRanksText(found: OverRanks, columns: number, style: TextStyle): string {
  const { overRanks, gpu, parallel, notes } = found;
  const width = Math.max(10, Math.min(widestBar, columns - besideBar));
  const most = Math.max(gpu.capacityBytes, ...overRanks.map(({ peak }) => peak.deviceBytes));
  const head = `What fills one rank (${parallel}) on one ${gpu.name} (estimated, by trace):`;
  const between = betweenNote(overRanks);
  const lines: Span[][] = [
    ...wrapText(cleanText(head), columns).map((line) => [span(line, 'bold')]),
    [span(`  ${'GPUs'.padStart(6)} ${'device'.padStart(11)}`, 'dim')],
    ...overRanks.map((point) => pointLine(point, found, { width, most, style })),
    [],
    ...legend(overRanks, columns, style),
    [span(`  ${mark(style)} the ${formatBytes(gpu.capacityBytes)} of the card`, 'dim')],
    [],
    ...wrapText(ranksVerdict(found), columns).map((line) => [span(line)]),
  ];
  const drawn = lines.map((line) => paintLine(line, columns, style));
  const noted = [...(between === undefined ? [] : [between]), ...notes]
    .flatMap((note) => noteLines(note, columns))
    .map((line) => paintLine([span(line)], Infinity, style));
  return [...drawn, '', ...noted].join('\n');
}

interface Scale {
  readonly width: number;
  readonly most: number;
  readonly style: TextStyle;
}

function pointLine(point: RankPoint, { gpu }: OverRanks, scale: Scale): Span[] {
  const fit = fitOf(point, gpu.capacityBytes);
  return [
    span(`  ${String(point.ranks.count).padStart(6)}`, 'bold'),
    span(` ${formatBytes(point.peak.deviceBytes).padStart(11)}  `),
    ...barOf(point, gpu.capacityBytes, scale),
    span(`  ${fitWords[fit]}`, fitPaints[fit]),
  ];
}

/** The parts as wide as their bytes, with a line where the card ends. */
function barOf({ breakdown }: RankPoint, capacityBytes: number, scale: Scale): Span[] {
  const { width, most, style } = scale;
  const cells: Span[] = [];
  let before = 0;
  for (const { part, bytes } of breakdown) {
    before += bytes;
    const { letter, paint } = partLooks[part];
    const end = Math.min(width, Math.round((before / most) * width));
    while (cells.length < end) cells.push(span(cellOf(letter, style), paint));
  }
  while (cells.length < width) cells.push(span(' '));
  const line = Math.min(width - 1, Math.max(0, Math.round((capacityBytes / most) * width) - 1));
  cells[line] = span(mark(style), 'bold');
  return merge(cells);
}

function legend(points: readonly RankPoint[], columns: number, style: TextStyle): Span[][] {
  const rows: Span[][] = [];
  let used = columns;
  for (const part of partsOver(points)) {
    const { letter, paint } = partLooks[part];
    const entry = [span(cellOf(letter, style), paint), span(` ${part}   `)];
    const size = part.length + 5;
    if (used + size > columns) {
      rows.push([span('  ')]);
      used = 2;
    }
    rows.at(-1)?.push(...entry);
    used += size;
  }
  return rows;
}

function mark({ unicode }: TextStyle): string {
  return unicode ? '┃' : '|';
}

/** What fills a rank of a job, for each of some counts of ranks. */
export interface OverRanks {
  readonly parallel: string;
  readonly gpu: EstimateGpu;
  readonly overRanks: readonly RankPoint[];
  readonly notes: readonly string[];
}

export const fitWords = { surely: 'fits', tightly: 'may fit', no: 'too large' } as const;

/** `It fits into the 79.6 GiB of this card from 4 GPUs on.` */
export function ranksVerdict({ overRanks, gpu }: OverRanks): string {
  const capacity = formatBytes(gpu.capacityBytes);
  const fits = overRanks.map((point) => fitOf(point, gpu.capacityBytes) === 'surely');
  const from = fits.lastIndexOf(false) + 1;
  const first = overRanks[from]?.ranks.count;
  if (first === undefined) {
    return `It does not surely fit into the ${capacity} of this card, on any of these counts of GPUs.`;
  }
  return from === 0
    ? `It fits into the ${capacity} of this card on each of these counts of GPUs.`
    : `It fits into the ${capacity} of this card from ${first} GPUs on.`;
}

/** Parts that any of the counts has, in their usual order. */
export function partsOver(points: readonly RankPoint[]): readonly Part[] {
  const known = new Set(points.flatMap(({ breakdown }) => breakdown.map(({ part }) => part)));
  return parts.filter((part) => known.has(part));
}

/** What was not traced, where there is such. */
export function betweenNote(points: readonly RankPoint[]): string | undefined {
  if (points.every(({ traced }) => traced)) return undefined;
  const counts = points.filter(({ traced }) => traced).map(({ ranks }) => ranks.count);
  return `Traced with ${counts.join(', ')} GPUs; the others lie between: what is shared out falls with their number.`;
}
