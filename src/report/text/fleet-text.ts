import { wasteOf } from '../../fleet/fleet-jobs.js';
import { byRisk, isAtRisk } from '../../fleet/risk-order.js';
import type {
  Fleet,
  FleetDevice,
  FleetJob,
  FleetLeak,
  FleetRank,
  FleetTraining,
} from '../../fleet/types.js';
import { formatBytes } from '../../units/bytes.js';
import { formatSeconds } from '../../units/durations.js';
import { isKnown } from '../../units/known.js';
import {
  fleetBytes,
  fleetHeadline,
  fullIn,
  ranksWords,
  riskWords,
  trainingName,
} from '../fleet-words.js';
import { count, percentOf, percentWords, rateWords, usedOfTotal } from '../words.js';
import { sparkRows } from './charts.js';
import { type Paint, paintLine, span, type TextStyle } from './spans.js';
import { cleanText, fitText, textWidth } from './text-width.js';

interface FleetTextOptions {
  readonly columns: number;
  readonly style: TextStyle;
  /** Every device, not those alone that need a look. */
  readonly all?: boolean | undefined;
}

/** Rows of each table; more do not help on one screen. */
const shownRows = 12;
const historyWidth = 60;

type NodeDevice = FleetDevice & { readonly node: string };

/** The fleet on a terminal: sums, then what needs a look, the most urgent first. */
export function fleetText(fleet: Fleet, options: FleetTextOptions): string {
  const devices = fleet.nodes
    .flatMap(({ name, devices: own }) =>
      own.map((device): NodeDevice => ({ ...device, node: name })),
    )
    .toSorted(byRisk);
  return [
    ...summary(fleet, options),
    ...section('Devices, the greatest risk first', devices, deviceColumns, {
      ...options,
      more: '--all shows them',
    }),
    ...section('Leaks', fleet.leaks, leakColumns, options),
    ...section('Jobs that reserved most above their peak', fleet.wasteful, jobColumns, options),
    ...section('Distributed trainings', fleet.trainings, trainingColumns, {
      ...options,
      more: '--job shows one of them',
    }),
  ].join('\n');
}

function summary({ totals, history, windowSeconds }: Fleet, options: FleetTextOptions): string[] {
  const { usedBytes, totalBytes, reservedBytes, unusedBytes, atRisk, leaking } = totals;
  const used = percentWords(percentOf(usedBytes, totalBytes));
  const lines = [
    `${fleetHeadline(totals)}.`,
    `Used ${fleetBytes(usedBytes)} (${used}), reserved ${fleetBytes(reservedBytes)}, of which ${fleetBytes(unusedBytes)} is unused.`,
    `${count(atRisk, 'device')} at risk, ${count(leaking, 'leak')}, ${count(totals.jobs, 'job')}, ${count(totals.trainings, 'distributed training')}.`,
  ];
  const shares = history.usedBytes.map((bytes, at) => {
    const total = history.totalBytes[at] ?? 0;
    return bytes === null || total <= 0 ? Number.NaN : bytes / total;
  });
  if (shares.length < 2) return lines;
  const width = Math.min(historyWidth, Math.max(10, options.columns - 30));
  const [spark = []] = sparkRows(shares, {
    width,
    height: 1,
    top: 1,
    line: 1,
    style: options.style,
  });
  const label = span(`Used, the last ${formatSeconds(windowSeconds)}: `);
  return [...lines, paintLine([label, ...spark], options.columns, options.style)];
}

function section<Row>(
  title: string,
  rows: readonly Row[],
  columns: readonly TextColumn<Row>[],
  options: FleetTextOptions & { readonly more?: string },
): string[] {
  if (rows.length === 0) return [];
  const shown = options.all ? rows : rows.slice(0, shownRows);
  const left = rows.length - shown.length;
  const hint = options.more ?? '--all shows them';
  return [
    '',
    `${title}:`,
    ...tableLines(shown, columns, options),
    ...(left > 0 ? [`and ${left.toLocaleString('en-US')} more (${hint})`] : []),
  ];
}

const deviceColumns: readonly TextColumn<NodeDevice>[] = [
  { title: 'NODE', cell: ({ node }) => node },
  { title: 'DEVICE', cell: ({ id }) => id },
  { title: 'RISK', cell: riskWords, paint: riskPaint },
  { title: 'FULL IN (estimated)', cell: fullIn },
  {
    title: 'USED',
    cell: ({ usedBytes, totalBytes }) =>
      `${percentWords(percentOf(usedBytes, totalBytes)).padStart(5)}  ${usedOfTotal(usedBytes, totalBytes)}`,
  },
  { title: 'RESERVED', cell: ({ reservedBytes }) => bytesOrNone(reservedBytes) },
  { title: 'UNUSED', cell: ({ unusedBytes }) => bytesOrNone(unusedBytes) },
  {
    title: 'LEAKS',
    cell: ({ leakBytesPerSecond: rate }) => (rate === null ? '' : rateWords(rate)),
  },
  { title: 'NAME', cell: ({ name }) => name },
];

function riskPaint(device: Pick<FleetDevice, 'risk' | 'silent'>): Paint | undefined {
  if (isAtRisk(device)) return 'red';
  return device.silent || device.risk === 'medium' ? 'yellow' : undefined;
}

const leakColumns: readonly TextColumn<FleetLeak>[] = [
  { title: 'NODE', cell: ({ node }) => node },
  { title: 'DEVICE', cell: ({ device }) => device },
  { title: 'GROWS', cell: ({ bytesPerSecond }) => rateWords(bytesPerSecond) },
  { title: 'FULL IN (estimated)', cell: fullIn },
  {
    title: 'PROCESS',
    cell: ({ process }) => (process === null ? '' : `${process.pid} ${process.name}`),
  },
  { title: 'USER', cell: ({ process }) => process?.user ?? '' },
];

const jobColumns: readonly TextColumn<FleetJob>[] = [
  { title: 'JOB', cell: ({ engine, id }) => [engine, id].join(' ').trim() },
  { title: 'NAME', cell: ({ name }) => name },
  { title: 'ON', cell: ({ node, devices }) => `${node} ${devices.join(' ')}` },
  { title: 'RESERVED', cell: ({ reservedBytes }) => bytesOrNone(reservedBytes ?? 0) },
  { title: 'PEAK', cell: ({ peakBytes }) => formatBytes(peakBytes) },
  { title: 'NEVER USED', cell: (job) => formatBytes(wasteOf(job)) },
];

const trainingColumns: readonly TextColumn<FleetTraining>[] = [
  { title: 'TRAINING', cell: trainingName },
  { title: 'RANKS', cell: ranksWords },
  { title: 'TIGHTEST', cell: tightestWords, widest: 40 },
  { title: 'SPREAD', cell: ({ spreadBytes }) => formatBytes(spreadBytes) },
  {
    title: 'WARNING',
    cell: ({ warnings }) => warnings[0] ?? '',
    widest: 200,
    paint: () => 'yellow',
  },
];

function tightestWords({ tightest, ranks }: FleetTraining): string {
  const rank = ranks.find((one) => one.rank === tightest);
  return rank === undefined ? 'unknown' : `rank ${rank.rank}, ${formatBytes(rank.freeBytes)} free`;
}

function bytesOrNone(bytes: number | 'unknown'): string {
  return isKnown(bytes) && bytes === 0 ? '' : formatBytes(bytes);
}

/** One column of a table of text. */
interface TextColumn<Row> {
  readonly title: string;
  readonly cell: (row: Row) => string;
  /** What is wider is cut. */
  readonly widest?: number;
  readonly paint?: (row: Row) => Paint | undefined;
}

/** Wide enough for most names, and narrow enough for the other columns. */
const usualWidest = 28;

/**
 * Rows as lines under their titles, each column as wide as it needs.
 *
 * @example
 * tableLines(nodes, [{ title: 'NODE', cell: ({ name }) => name }], { columns: 80, style });
 */
function tableLines<Row>(
  rows: readonly Row[],
  columns: readonly TextColumn<Row>[],
  screen: { readonly columns: number; readonly style: TextStyle },
): readonly string[] {
  const mark = screen.style.unicode ? '…' : '~';
  const texts = rows.map((row) => columns.map(({ cell }) => cleanText(cell(row))));
  const widths = columns.map(({ title, widest = usualWidest }, at) => {
    const longest = texts.reduce((most, row) => Math.max(most, textWidth(row[at] ?? '')), 0);
    return Math.min(widest, Math.max(textWidth(title), longest));
  });
  const padded = (text: string, at: number) => {
    const fitted = fitText(text, widths[at] ?? 0, mark);
    // Behind the last one there is nothing to keep apart.
    return at === columns.length - 1 ? fitted.trimEnd() : `${fitted}  `;
  };
  const head = columns.map(({ title }, at) => span(padded(title, at), 'dim'));
  const lines = rows.map((row, index) =>
    columns.map(({ paint }, at) => span(padded(texts[index]?.[at] ?? '', at), paint?.(row))),
  );
  return [head, ...lines].map((spans) => paintLine(spans, screen.columns, screen.style).trimEnd());
}

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
