import { useEffect, useState } from 'preact/hooks';
import { fetchAssumptions, fetchNames } from '../../api/client.js';
import type { Assumptions, KnownNames } from '../../api/types.js';
import { createStore, useStore } from '../live/store.js';

/** So long after the last key. */
const pauseMs = 300;

/**
 * The values that the server takes for what a form leaves out; undefined until it has answered, and
 * where there is no question yet.
 */
export function useAssumptions(
  kind: 'plan' | 'estimate',
  question: object | undefined,
): Assumptions | undefined {
  const [known, setKnown] = useState<Assumptions | undefined>(undefined);
  const asked = question === undefined ? undefined : JSON.stringify(question);
  useEffect(() => {
    if (asked === undefined) return setKnown(undefined);
    const leaving = new AbortController();
    const timer = setTimeout(() => {
      fetchAssumptions(kind, JSON.parse(asked), leaving.signal).then(setKnown, () => {
        // The form says what is wrong when it is sent.
        if (!leaving.signal.aborted) setKnown(undefined);
      });
    }, pauseMs);
    return () => {
      clearTimeout(timer);
      leaving.abort();
    };
  }, [kind, asked]);
  return known;
}

const names = createStore<KnownNames | undefined>(undefined);

/** The models and cards that the server knows; undefined until it has answered. */
export function useNames(): KnownNames | undefined {
  useEffect(() => {
    // Without them nothing is suggested.
    if (names.get() === undefined)
      fetchNames().then(
        (found) => names.set(found),
        () => undefined,
      );
  }, []);
  return useStore(names, (now) => now);
}
