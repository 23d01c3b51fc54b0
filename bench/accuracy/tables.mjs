// The result for people: as text in a terminal, as Markdown in a file.
import { percent, targets } from './figures.mjs';

const gibibytes = (bytes) => (bytes / 1024 ** 3).toFixed(2);
const signed = (share) => (share === undefined ? '-' : `${share > 0 ? '+' : ''}${percent(share)}`);

function methods(result) {
  return [
    ['plimsoll, reserved', result.reserved],
    ['plimsoll, allocated', result.allocated],
    ['plimsoll, device', result.device],
    ['accelerate: 4 x weights, or weights', result.accelerate],
    ['18 bytes a parameter (training)', result.eighteenBytes],
  ].map(([name, { cases, median, p95, worst, tooLow }]) => [
    name,
    String(cases),
    percent(median),
    percent(p95),
    percent(worst),
    percent(tooLow, 0),
  ]);
}

const methodHead = ['error of the peak', 'cases', 'median', '95th', 'worst', 'too low'];
const familyHead = ['family', 'cases', 'reserved', 'worst', 'allocated', 'in interval'];
const caseHead = ['case', 'measured GiB', 'estimated GiB', 'reserved', 'allocated', 'interval GiB'];

function families(result) {
  return result.families.map(({ family, reserved, allocated, inside }) => [
    family,
    String(reserved.cases),
    percent(reserved.median),
    percent(reserved.worst),
    percent(allocated.median),
    `${inside}/${reserved.cases}`,
  ]);
}

function caseCells(row) {
  const { lowBytes, highBytes } = row.interval;
  return [
    row.id,
    gibibytes(row.reservedBytes),
    gibibytes(row.estimate.reservedBytes),
    signed(row.reserved),
    signed(row.allocated),
    `${gibibytes(lowBytes)} to ${gibibytes(highBytes)}${row.inside ? '' : ' (outside)'}`,
  ];
}

function closing(result) {
  return `In the interval: ${percent(result.insideShare, 1)} (at least ${percent(targets.insideShare, 0)}); its width: ${percent(result.intervalWidth, 1)} of the peak (median). Failed: ${result.failures.length} of ${result.cases}.`;
}

export function asText(result) {
  return [
    align([methodHead, ...methods(result)]),
    align([familyHead, ...families(result)]),
    `The worst:\n${align([caseHead, ...result.worst.map(caseCells)])}`,
    ...result.failures.map(({ id, why }) => `Failed: ${id}: ${why}`),
    closing(result),
  ].join('\n\n');
}

export function asMarkdown(result, rows, title) {
  return [
    `# ${title}`,
    table(methodHead, methods(result)),
    closing(result),
    table(familyHead, families(result)),
    table(caseHead, rows.map(caseCells)),
    ...result.failures.map(({ id, why }) => `Failed: ${id}: ${why}`),
    '',
  ].join('\n\n');
}

/** The first column to the left, figures to the right. */
function align(rows) {
  const widths = rows[0].map((_, column) => Math.max(...rows.map((row) => row[column].length)));
  return rows
    .map((row) =>
      row
        .map((cell, column) =>
          column === 0 ? cell.padEnd(widths[column]) : cell.padStart(widths[column]),
        )
        .join('  '),
    )
    .join('\n');
}

function table(head, rows) {
  const rule = head.map((_, column) => (column === 0 ? '---' : '---:'));
  return [head, rule, ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}
