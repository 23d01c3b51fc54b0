import type { FleetRank, FleetTraining } from '../../../fleet/types.js';
import { formatBytes } from '../../../units/bytes.js';
import { fullIn, ranksWords, trainingName } from '../../fleet-words.js';
import { rateWords } from '../../words.js';
import { cleanText } from '../text-width.js';
import { type FleetTextOptions, riskPaint } from './fleet-text.js';
import { type TextColumn, tableLines } from './table-lines.js';

/** One distributed training, with its ranks and what its owner should know. */
export function trainingText(training: FleetTraining, options: FleetTextOptions): string {
  const { spreadBytes, warnings, tightest, ranks } = training;
  const mark = (rank: FleetRank) => (rank.rank === tightest ? 'tightest' : '');
  const marked: TextColumn<FleetRank> = { title: '', cell: mark };
  const lines = [
    cleanText(`${trainingName(training)}: ${ranksWords(training)}.`),
    ...(ranks.length < 2
      ? []
      : [`Between the largest and the smallest rank lie ${formatBytes(spreadBytes)}.`]),
    ...warnings.map((warning) => `Warning: ${cleanText(warning)}`),
    '',
    ...tableLines(ranks, [...rankColumns, marked], options),
  ];
  return lines.join('\n');
}

const rankColumns: readonly TextColumn<FleetRank>[] = [
  { title: 'RANK', cell: ({ rank }) => String(rank) },
  { title: 'NODE', cell: ({ node }) => node },
  { title: 'DEVICE', cell: ({ device }) => device },
  { title: 'USED', cell: ({ usedBytes }) => formatBytes(usedBytes) },
  { title: 'FREE THERE', cell: ({ freeBytes }) => formatBytes(freeBytes) },
  {
    title: 'RISK',
    cell: ({ risk }) => risk,
    paint: ({ risk }) => riskPaint({ risk, silent: false }),
  },
  { title: 'FULL IN (estimated)', cell: fullIn },
  {
    title: 'LEAKS',
    cell: ({ leakBytesPerSecond: rate }) => (rate === null ? '' : rateWords(rate)),
  },
];
