import type { RankPoint } from '../../estimate/over-ranks.js';
import { type Part, parts } from '../../estimate/types.js';
import { fitOf } from '../../plan/fit/fit.js';
import { formatBytes } from '../../units/bytes.js';
import type { EstimateGpu } from '../estimate-words.js';
import { partLooks } from '../part-looks.js';
import { merge } from '../text/charts/runs.js';
import { cellOf } from '../text/estimate-text.js';
import { paintLine, type Span, span, type TextStyle } from '../text/spans.js';
import { cleanText, noteLines, wrapText } from '../text/text-width.js';

const fitPaints = { surely: 'green', tightly: 'yellow', no: 'red' } as const;
const widestBar = 60;
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
