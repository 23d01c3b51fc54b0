import { useState } from 'preact/hooks';
import { fullIn, ranksWords, trainingName } from '../../../../src/report/fleet-words.js';
import { formatBytes } from '../../../../src/units/bytes.js';
import type { FleetRank, FleetTraining } from '../../api/types.js';

const shownTrainings = 5;
/** More bars than pixels show nothing more. */
const shownRanks = 512;

/** Distributed trainings, those with a warning first. */
export function TrainingList({ trainings }: { trainings: readonly FleetTraining[] }) {
  const [all, setAll] = useState(false);
  if (trainings.length === 0) return null;
  const shown = all ? trainings : trainings.slice(0, shownTrainings);
  return (
    <section aria-labelledby="trainings-title">
      <h2 id="trainings-title">Distributed trainings</h2>
      <ul class="trainings">
        {shown.map((training) => (
          <TrainingItem key={`${training.engine} ${training.id}`} training={training} />
        ))}
      </ul>
      {shown.length < trainings.length && (
        <button type="button" class="quiet" onClick={() => setAll(true)}>
          Show all {trainings.length.toLocaleString('en-US')}
        </button>
      )}
    </section>
  );
}

function TrainingItem({ training }: { training: FleetTraining }) {
  const { ranks, warnings, tightest, spreadBytes } = training;
  const tight = ranks.find(({ rank }) => rank === tightest);
  return (
    <li>
      <h3>{trainingName(training)}</h3>
      <p>
        {ranksWords(training)}, spread {formatBytes(spreadBytes)}
        {tight !== undefined &&
          `, tightest: rank ${tight.rank} on ${tight.node}/${tight.device} with ${formatBytes(tight.freeBytes)} free`}
      </p>
      <RankBars ranks={ranks.slice(0, shownRanks)} tightest={tight} />
      {warnings.map((warning) => (
        <p key={warning} class="training-warning">
          {warning}
        </p>
      ))}
    </li>
  );
}

/** A bar for each rank, as high as what it holds beside the largest of them. */
function RankBars({
  ranks,
  tightest,
}: {
  ranks: readonly FleetRank[];
  tightest: FleetRank | undefined;
}) {
  const most = Math.max(1, ...ranks.map(({ usedBytes }) => usedBytes));
  return (
    <svg
      class="rank-bars"
      viewBox={`0 0 ${ranks.length * 10} 40`}
      preserveAspectRatio="none"
      role="img"
      aria-label={`Memory of ${ranks.length} ranks, the most is ${formatBytes(most)}`}
    >
      {ranks.map((rank, at) => {
        const height = Math.max(1, Math.round((rank.usedBytes / most) * 400) / 10);
        const kind = rank === tightest ? 'tightest' : `risk-${rank.risk}`;
        return (
          <rect
            key={`${rank.rank} ${rank.device}`}
            class={rank.leakBytesPerSecond === null ? kind : `${kind} leaks`}
            x={at * 10 + 1}
            y={40 - height}
            width="8"
            height={height}
          >
            <title>{rankWords(rank)}</title>
          </rect>
        );
      })}
    </svg>
  );
}

function rankWords(rank: FleetRank): string {
  const full = fullIn(rank);
  return `Rank ${rank.rank}, ${rank.node}/${rank.device}: ${formatBytes(rank.usedBytes)}, ${formatBytes(rank.freeBytes)} free there${full === '' ? '' : `, full in ${full} (estimated)`}`;
}
