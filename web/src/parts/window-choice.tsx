import { board, showWindow } from '../state/live/live.js';
import { useStore } from '../state/live/store.js';

const windows = [
  { seconds: 60, label: '1 min' },
  { seconds: 300, label: '5 min' },
  { seconds: 3600, label: '1 h' },
  { seconds: 86_400, label: '1 d' },
] as const;

/** How much of the past the charts show. */
export function WindowChoice() {
  const chosen = useStore(board, ({ windowSeconds }) => windowSeconds);
  return (
    <fieldset class="segments">
      <legend class="aside">Time shown</legend>
      {windows.map(({ seconds, label }) => (
        <label key={seconds}>
          <input
            type="radio"
            name="window"
            checked={seconds === chosen}
            onChange={() => showWindow(seconds)}
          />
          <span>{label}</span>
        </label>
      ))}
    </fieldset>
  );
}
