import { formatSeconds } from '../../../../src/units/durations.js';
import { useNow } from '../../parts/clock.js';
import { ProvenanceTag } from '../../parts/tags.js';
import { agoWords } from '../../parts/words.js';
import { type AlertEpisode, alertEpisodes } from '../../state/devices/alert-episodes.js';
import { alertKey } from '../../state/live/board.js';
import { board } from '../../state/live/live.js';
import { useStore } from '../../state/live/store.js';

const alertsShown = 4;

/** What was warned of, the latest first. */
export function AlertList() {
  const alerts = useStore(board, (now) => now.alerts);
  const now = useNow();
  const latest = alertEpisodes(alerts).slice(0, alertsShown);
  if (latest.length === 0) return null;
  return (
    <section aria-labelledby="alerts-title">
      <div class="heading">
        <h2 id="alerts-title">Alerts</h2>
      </div>
      <ol class="alerts">
        {latest.map((episode) => (
          <Episode key={alertKey(episode.alert)} {...episode} now={now} />
        ))}
      </ol>
    </section>
  );
}

function Episode({ alert, clearedMs, now }: AlertEpisode & { now: number }) {
  const over = clearedMs !== undefined;
  return (
    <li class={over ? 'cleared' : alert.severity}>
      <span class="mark">{over ? 'over' : alert.severity}</span>
      <span class="when">{agoWords(alert.epochMs, now)}</span>
      <p>
        {alert.message}{' '}
        {over && <small>Over after {formatSeconds((clearedMs - alert.epochMs) / 1000)}.</small>}{' '}
        {alert.provenance === 'simulated' && <ProvenanceTag from="simulated" />}
      </p>
    </li>
  );
}
