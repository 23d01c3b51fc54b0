/** Rows above and below the screen that are drawn as well, so that scrolling shows no holes. */
const spare = 10;
/** The range moves in steps: most scroll events then change nothing. */
const step = 5;

export interface RowRange {
  readonly first: number;
  /** One past the last. */
  readonly end: number;
}

/**
 * Which of many rows of one height are on the screen; `top` is where the list begins on it. The
 * first rows are there even before one scrolled to them, for keys and screen readers.
 */
export function rowsOnScreen(
  view: { readonly top: number; readonly height: number },
  rowHeight: number,
  count: number,
): RowRange {
  const above = Math.floor(-view.top / rowHeight) - spare;
  const below = Math.ceil((view.height - view.top) / rowHeight) + spare;
  const first = Math.floor(Math.min(above, count) / step) * step;
  const end = Math.max(spare, Math.ceil(below / step) * step);
  return { first: Math.max(0, first), end: Math.min(count, end) };
}
