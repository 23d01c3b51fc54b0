import type { Estimate } from '../estimate/types.js';
import { formatBytes } from '../units/bytes.js';
import { moduleWords } from './estimate-words.js';

/** One program at the base and now. */
export interface CheckRow {
  readonly name: string;
  readonly budgetBytes?: number;
  /** `unknown` where there is no base, or where the base has no such program. */
  readonly before: Estimate | 'unknown';
  readonly after: Estimate;
}

export interface Compared {
  readonly rows: readonly CheckRow[];
  readonly base: string | undefined;
  /** The file with the programs, as it was named. */
  readonly file: string;
}

export function isOverBudget({ after, budgetBytes }: CheckRow): boolean {
  return budgetBytes !== undefined && after.peak.deviceBytes > budgetBytes;
}

/** Finds the comment again, so that a later run replaces it. */
export const commentMark = '<!-- plimsoll check -->';

/** Modules that are worth a line. */
const mostModules = 8;

/**
 * The comment of a pull request: the peak before and after, by part, and the modules that grew.
 *
 * @example
 * checkMarkdown({ rows, base: 'origin/main', file: 'plimsoll.check.json' });
 */
export function checkMarkdown({ rows, base }: Compared): string {
  const over = rows.filter(isOverBudget);
  const verdict =
    over.length === 0
      ? 'All programs are within their budgets.'
      : `**${over.map(({ name }) => name).join(', ')}: over budget.**`;
  const against = base === undefined ? '' : ` Compared with \`${base.slice(0, 12)}\`.`;
  return [
    commentMark,
    '### GPU memory',
    `${verdict}${against} Estimated, without a GPU.`,
    '| program | before | after | change | budget |\n| --- | ---: | ---: | ---: | ---: |',
    ...rows.map((row) => {
      const { name, after, budgetBytes } = row;
      const limit = budgetBytes === undefined ? '' : formatBytes(budgetBytes);
      const mark = isOverBudget(row) ? ' ❌' : '';
      const before = beforeBytes(row);
      const cells = [
        escaped(name),
        before === undefined ? 'unknown' : formatBytes(before),
        `${formatBytes(after.peak.deviceBytes)}${mark}`,
        before === undefined ? '' : change(after.peak.deviceBytes - before),
        limit,
      ];
      return `| ${cells.join(' | ')} |`;
    }),
    ...rows.flatMap(details),
  ]
    .join('\n\n')
    .replaceAll(/\|\n\n\|/g, '|\n|')
    .concat('\n');
}

function details(row: CheckRow): readonly string[] {
  const parts = partChanges(row);
  const modules = grownModules(row);
  if (row.before === 'unknown' || parts.every(({ before, after }) => before === after)) return [];
  return [
    `<details><summary>${escaped(row.name)}: by part</summary>`,
    [
      '| part | before | after | change |',
      '| --- | ---: | ---: | ---: |',
      ...parts.map(
        ({ part, before, after }) =>
          `| ${part} | ${formatBytes(before)} | ${formatBytes(after)} | ${change(after - before)} |`,
      ),
    ].join('\n'),
    ...(modules.length === 0
      ? []
      : [
          `Layers that grew: ${modules.map(({ name, more }) => `\`${name}\` ${change(more)}`).join(', ')}.`,
        ]),
    '</details>',
  ];
}

/** The same for a terminal. */
export function checkText({ rows, base }: Compared): string {
  const lines = rows.flatMap((row) => {
    const { name, after, budgetBytes } = row;
    const before = beforeBytes(row);
    const earlier =
      before === undefined
        ? ''
        : `, ${formatBytes(before)} before (${change(after.peak.deviceBytes - before)})`;
    const limit = budgetBytes === undefined ? '' : `, budget ${formatBytes(budgetBytes)}`;
    const mark = isOverBudget(row) ? ': over budget' : '';
    return [
      `${name}: ${formatBytes(after.peak.deviceBytes)}${earlier}${limit}${mark}`,
      ...partChanges(row)
        .filter((one) => row.before !== 'unknown' && one.before !== one.after)
        .map((one) => `  ${one.part.padEnd(14)}${change(one.after - one.before)}`),
      ...grownModules(row).map((one) => `  layer ${one.name} ${change(one.more)}`),
    ];
  });
  const against = base === undefined ? [] : [`Compared with ${base}.`];
  return `${[...lines, ...against].join('\n')}\n`;
}

/** What is over its budget, as SARIF 2.1.0: other hosts of code show it. */
export function checkSarif({ rows, file }: Compared, version: string) {
  return {
    $schema: 'https://json.schemastore.org/sarif-2.1.0.json',
    version: '2.1.0',
    runs: [
      {
        tool: {
          driver: {
            name: 'plimsoll',
            version,
            rules: [
              {
                id: 'gpu-memory-budget',
                shortDescription: { text: 'The peak of GPU memory is within its budget.' },
              },
            ],
          },
        },
        results: rows.filter(isOverBudget).map(({ name, after, budgetBytes = 0 }) => ({
          ruleId: 'gpu-memory-budget',
          level: 'error',
          message: {
            text: `${name} needs ${formatBytes(after.peak.deviceBytes)} at its peak; its budget is ${formatBytes(budgetBytes)}.`,
          },
          locations: [{ physicalLocation: { artifactLocation: { uri: file } } }],
        })),
      },
    ],
  };
}

function beforeBytes({ before }: CheckRow): number | undefined {
  return before === 'unknown' ? undefined : before.peak.deviceBytes;
}

function partChanges({ before, after }: CheckRow) {
  const earlier = before === 'unknown' ? [] : before.breakdown;
  const parts = new Set([...after.breakdown, ...earlier].map(({ part }) => part));
  const of = (from: Estimate['breakdown'], wanted: string) =>
    from.find(({ part }) => part === wanted)?.bytes ?? 0;
  return [...parts].map((part) => ({
    part,
    before: of(earlier, part),
    after: of(after.breakdown, part),
  }));
}

/** Modules that hold more than before, the most first. */
function grownModules({ before, after }: CheckRow) {
  if (before === 'unknown') return [];
  const earlier = bytesByModule(before);
  return [...bytesByModule(after)]
    .map(([name, bytes]) => ({ name, more: bytes - (earlier.get(name) ?? 0) }))
    .filter(({ more }) => more > 0)
    .toSorted((a, b) => b.more - a.more)
    .slice(0, mostModules);
}

function bytesByModule({ breakdown }: Estimate): ReadonlyMap<string, number> {
  const sums = new Map<string, number>();
  for (const { modules = [] } of breakdown) {
    for (const module of modules) {
      const name = moduleWords(module);
      sums.set(name, (sums.get(name) ?? 0) + module.bytes);
    }
  }
  return sums;
}

function change(bytes: number): string {
  if (bytes === 0) return '0';
  return `${bytes > 0 ? '+' : '-'}${formatBytes(Math.abs(bytes))}`;
}

function escaped(name: string): string {
  return name.replaceAll('|', String.raw`\|`).replaceAll('<', '&lt;');
}
