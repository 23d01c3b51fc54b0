import { useEffect, useRef, useState } from 'preact/hooks';

/** A value that many parts of the page look at. */
export interface Store<T> {
  get(): T;
  set(next: T): void;
  subscribe(listener: () => void): () => void;
}

export function createStore<T>(initial: T): Store<T> {
  let value = initial;
  const listeners = new Set<() => void>();
  return {
    get: () => value,
    set(next) {
      if (Object.is(next, value)) return;
      value = next;
      for (const listener of listeners) listener();
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

/** The part of a store that a component shows; it is drawn again only when that part changes. */
export function useStore<T, P>(store: Store<T>, select: (value: T) => P): P {
  const [, redraw] = useState(0);
  const now = select(store.get());
  const drawn = useRef({ select, value: now });
  drawn.current = { select, value: now };
  useEffect(() => {
    const look = (): void => {
      const next = drawn.current.select(store.get());
      if (Object.is(next, drawn.current.value)) return;
      drawn.current.value = next;
      redraw((count) => count + 1);
    };
    // What changed between drawing and listening.
    look();
    return store.subscribe(look);
  }, [store]);
  return now;
}
