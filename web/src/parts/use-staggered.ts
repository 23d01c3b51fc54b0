import { useEffect, useRef, useState } from 'preact/hooks';
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

/** Charts drawn in one frame of the screen: the rest of the frame belongs to scrolling and typing. */
const drawnInAFrame = 3;

/** Something that is drawn when its turn comes. */
export interface Drawable {
  /** It does not change visibly more often than this. */
  readonly leastMs: number;
  draw(): void;
}

const waiting = new Set<Drawable>();
const lastDrawn = new WeakMap<Drawable, number>();
let scheduled = false;

/** Draws it soon, with others spread over several frames. Asked again before that, it is drawn once. */
export function requestDraw(drawable: Drawable): void {
  waiting.add(drawable);
  schedule();
}

export function forgetDraw(drawable: Drawable): void {
  waiting.delete(drawable);
}

function schedule(): void {
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(drawSome);
}

function drawSome(nowMs: number): void {
  scheduled = false;
  let drawn = 0;
  for (const drawable of waiting) {
    if (drawn === drawnInAFrame) break;
    if (nowMs - (lastDrawn.get(drawable) ?? -Infinity) < drawable.leastMs) continue;
    waiting.delete(drawable);
    lastDrawn.set(drawable, nowMs);
    drawable.draw();
    drawn += 1;
  }
  if (waiting.size > 0) schedule();
}
