import { type Estimate, type Part, parts } from '../../estimate/contract.js';
import { formatBytes } from '../../units/bytes.js';
import { percentWords } from '../words.js';
import { merge } from './bar.js';
import { type Paint, paintLine, type Span, span, type TextStyle } from './spans.js';
import { cleanText } from './text-width.js';

export interface EstimateTextOptions {
  /** The name of the GPU, and what it has. */
  readonly gpu: { readonly name: string; readonly capacityBytes: number };
  readonly columns: number;
  readonly style: TextStyle;
}

/** Told apart by letter where there are no colours. */
const looks: Readonly<Record<Part, readonly [letter: string, paint: Paint]>> = {
  weights: ['W', 'blue'],
  gradients: ['G', 'magenta'],
  optimizer: ['O', 'yellow'],
  activations: ['A', 'cyan'],
  temporary: ['T', 'green'],
  workspace: ['K', 'white'],
  'kv-cache': ['V', 'blue'],
  context: ['C', 'dim'],
  fragmentation: ['F', 'red'],
};
const widestBar = 60;
const nameWidth = Math.max(...parts.map((part) => part.length));
const sizeWidth = 11;

/**
 * An estimate for people: the four answers, and what fills the device at the peak as a stacked bar.
 *
 * @example
 * estimateText(estimate, { gpu, columns: 80, style: { colour: false, unicode: true } });
 */
export function estimateText(estimate: Estimate, options: EstimateTextOptions): string {
  const { peak, interval, breakdown, notes, method } = estimate;
  const { gpu, columns, style } = options;
  const fits = peak.leastCapacityBytes <= gpu.capacityBytes;
  const answers = [
    ['allocated', peak.allocatedBytes, 'live blocks'],
    [
      'reserved',
      peak.reservedBytes,
      `what the allocator holds; ${percentWords(interval.confidence * 100)}: ${formatBytes(interval.lowBytes)} to ${formatBytes(interval.highBytes)}`,
    ],
    ['device', peak.deviceBytes, 'with the CUDA context'],
    ['least capacity', peak.leastCapacityBytes, 'the smallest device on which it still runs'],
  ] as const;
  const lines: Span[][] = [
    [span(`Peak on one ${cleanText(gpu.name)} (estimated, by ${method}):`, 'bold')],
    ...answers.map(([name, bytes, what]) => [
      span(`  ${name.padEnd(nameWidth + 2)}`),
      span(formatBytes(bytes).padStart(sizeWidth), 'bold'),
      span(`  ${what}`, 'dim'),
    ]),
    [],
    [span('At the peak:', 'bold')],
    [span('  '), ...stackedBar(breakdown, Math.min(widestBar, Math.max(10, columns - 4)), style)],
    ...breakdown.map(({ part, bytes }) => partLine(part, bytes, peak.deviceBytes, style)),
    [],
    [
      fits
        ? span(`It fits into the ${formatBytes(gpu.capacityBytes)} of this card.`, 'green')
        : span(`It does not fit into the ${formatBytes(gpu.capacityBytes)} of this card.`, 'red'),
    ],
  ];
  const drawn = lines.map((line) => paintLine(line, columns, style));
  // A note must not be cut: it may be what matters most.
  const noted = notes.map((note) => paintLine([span(`- ${cleanText(note)}`)], Infinity, style));
  return [...drawn, ...noted].join('\n');
}

function partLine(part: Part, bytes: number, whole: number, style: TextStyle): Span[] {
  const [letter, paint] = looks[part];
  return [
    span('  '),
    span(cellOf(letter, style), paint),
    span(` ${part.padEnd(nameWidth)}`),
    span(formatBytes(bytes).padStart(sizeWidth)),
    span(`  ${percentWords((bytes / whole) * 100, 1).padStart(6)}`, 'dim'),
  ];
}

/** Each part as wide as its share; together exactly `width` cells. */
function stackedBar(breakdown: Estimate['breakdown'], width: number, style: TextStyle): Span[] {
  const whole = breakdown.reduce((sum, { bytes }) => sum + bytes, 0);
  let before = 0;
  return merge(
    breakdown.map(({ part, bytes }) => {
      const start = Math.round((before / whole) * width);
      before += bytes;
      const cells = Math.round((before / whole) * width) - start;
      const [letter, paint] = looks[part];
      return span(cellOf(letter, style).repeat(cells), paint);
    }),
  );
}

function cellOf(letter: string, style: TextStyle): string {
  return style.colour && style.unicode ? '█' : letter;
}
