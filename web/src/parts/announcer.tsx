import { news } from '../state/live/live.js';
import { useStore } from '../state/live/store.js';

/** Says to a screen reader what happened: alerts and ends of jobs, not every reading. */
export function Announcer() {
  const text = useStore(news, (now) => now);
  return (
    <p class="aside" role="status" aria-live="polite" id="news">
      {text}
    </p>
  );
}
