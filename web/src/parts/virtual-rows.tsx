import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';

/** As the style sheet has them: all rows have one height, another one on small screens. */
export interface RowHeights {
  readonly wide: number;
  readonly narrow: number;
}
const jobHeights: RowHeights = { wide: 68, narrow: 140 };

export interface RowStyle {
  readonly transform: string;
}

/** Many rows, of which only those on the screen are there. The page itself scrolls. */
export function VirtualRows(props: {
  count: number;
  heights?: RowHeights;
  row: (index: number, style: RowStyle) => ComponentChildren;
}) {
  const box = useRef<HTMLDivElement>(null);
  const [range, setRange] = useState<RowRange>({ first: 0, end: 0 });
  const { count, heights = jobHeights } = props;
  const [height, setHeight] = useState(heightNow(heights));

  useEffect(() => {
    let asked = 0;
    const look = (): void => {
      asked = 0;
      if (box.current === null) return;
      const top = box.current.getBoundingClientRect().top;
      const next = rowsOnScreen({ top, height: innerHeight }, heightNow(heights), count);
      setHeight(heightNow(heights));
      setRange((now) => (now.first === next.first && now.end === next.end ? now : next));
    };
    const ask = (): void => {
      asked ||= requestAnimationFrame(look);
    };
    look();
    addEventListener('scroll', ask, { passive: true });
    addEventListener('resize', ask);
    // What grows above the list moves it.
    const above = new ResizeObserver(ask);
    above.observe(document.body);
    return () => {
      cancelAnimationFrame(asked);
      above.disconnect();
      removeEventListener('scroll', ask);
      removeEventListener('resize', ask);
    };
  }, [count, heights]);

  const rows: ComponentChildren[] = [];
  for (let index = range.first; index < Math.min(range.end, count); index++) {
    rows.push(props.row(index, { transform: `translateY(${index * height}px)` }));
  }
  return (
    <div role="rowgroup" class="rows" ref={box} style={{ height: `${count * height}px` }}>
      {rows}
    </div>
  );
}

function heightNow(heights: RowHeights): number {
  return matchMedia('(max-width: 760px)').matches ? heights.narrow : heights.wide;
}

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
