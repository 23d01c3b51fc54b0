import { type Paint, paintLine, span, type TextStyle } from '../spans.js';
import { cleanText, fitText, textWidth } from '../text-width.js';

/** One column of a table of text. */
export interface TextColumn<Row> {
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
export function tableLines<Row>(
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
