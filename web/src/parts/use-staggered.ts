import { useEffect, useRef, useState } from 'preact/hooks';
import { type Drawable, forgetDraw, requestDraw } from '../charts/draw-queue.js';
import type { Store } from '../state/live/store.js';

/**
 * Parts of a store, as `useStore` has them, for one of several large pieces of the page: when all
 * of them change at once, each is drawn in a frame of its own.
 */
export function useStaggered<T, P extends readonly unknown[]>(
  store: Store<T>,
  select: (value: T) => P,
  /** It is not drawn again before. */
  leastMs: number,
): P {
  const [, redraw] = useState(0);
  const now = select(store.get());
  const drawn = useRef({ select, parts: now });
  drawn.current = { select, parts: now };
  useEffect(() => {
    const drawable: Drawable = { leastMs, draw: () => redraw((count) => count + 1) };
    const look = (): void => {
      const { select: pick, parts } = drawn.current;
      if (pick(store.get()).some((part, index) => !Object.is(part, parts[index]))) {
        requestDraw(drawable);
      }
    };
    look();
    const forget = store.subscribe(look);
    return () => {
      forget();
      forgetDraw(drawable);
    };
  }, [store, leastMs]);
  return now;
}
