import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { type RowRange, rowsOnScreen } from '../state/page/window-of-rows.js';

/** As the style sheet has it: all rows have one height, another one on small screens. */
const rowHeights = { wide: 58, narrow: 96 };
const narrow = matchMedia('(max-width: 760px)');

export interface RowStyle {
  readonly transform: string;
}

/** Many rows, of which only those on the screen are there. The page itself scrolls. */
export function VirtualRows(props: {
  count: number;
  row: (index: number, style: RowStyle) => ComponentChildren;
}) {
  const box = useRef<HTMLDivElement>(null);
  const [range, setRange] = useState<RowRange>({ first: 0, end: 0 });
  const [height, setHeight] = useState(heightNow());
  const { count } = props;

  useEffect(() => {
    let asked = 0;
    const look = (): void => {
      asked = 0;
      if (box.current === null) return;
      const top = box.current.getBoundingClientRect().top;
      const next = rowsOnScreen({ top, height: innerHeight }, heightNow(), count);
      setHeight(heightNow());
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
  }, [count]);

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

function heightNow(): number {
  return narrow.matches ? rowHeights.narrow : rowHeights.wide;
}
