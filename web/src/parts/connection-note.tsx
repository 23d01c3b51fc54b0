import { connect, connection } from '../state/live/live.js';
import { useStore } from '../state/live/store.js';
import { useNow } from './clock.js';

/** What is shown may be old: the server does not answer. */
export function ConnectionNote() {
  const now = useNow();
  const state = useStore(connection, (value) => value);
  if (state.phase !== 'lost') return null;
  const seconds = Math.max(0, Math.ceil((state.retryAtMs - now) / 1000));
  return (
    <div class="lost" role="status">
      <p>
        <b>No connection to the server.</b> Jobs go on without it; the figures below are from
        before. {seconds === 0 ? 'Trying again …' : `Trying again in ${seconds} s.`}
      </p>
      <button type="button" onClick={connect}>
        Try now
      </button>
    </div>
  );
}
