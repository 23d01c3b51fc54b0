import { isKnown } from '../../../src/units/known.js';
import type { Attempt } from '../api/types.js';

const height = 70;
const step = 64;

/** The batch size over the attempts: each column is one, split by how it is accumulated. */
export function BatchSteps({
  attempts,
}: {
  attempts: readonly Pick<Attempt, 'number' | 'settings' | 'outOfMemory'>[];
}) {
  const known = attempts.flatMap(({ number, settings, outOfMemory }) =>
    isKnown(settings.batch_size)
      ? [{ number, batch: settings.batch_size, accumulation: settings.accumulation, outOfMemory }]
      : [],
  );
  if (known.length < 2) return null;
  const most = Math.max(...known.map(({ batch, accumulation }) => batch * accumulation));
  const words = known.map(
    ({ number, batch, accumulation }) => `attempt ${number}: ${batch} × ${accumulation}`,
  );
  return (
    <figure class="batches">
      <figcaption>Batch sizes over the attempts; the effective batch stays</figcaption>
      <svg
        viewBox={`0 0 ${known.length * step} ${height + 34}`}
        width={known.length * step}
        height={height + 34}
        role="img"
        aria-label={words.join(', ')}
      >
        {known.map(({ number, batch, accumulation, outOfMemory }, index) => (
          <g
            key={number}
            transform={`translate(${index * step})`}
            class={outOfMemory === null ? '' : 'sunk'}
          >
            {Array.from({ length: Math.min(accumulation, 32) }, (_, part) => {
              const tall = (batch / most) * height;
              return (
                <rect
                  key={part}
                  x="6"
                  y={height + 12 - (part + 1) * tall + 1}
                  width={step - 16}
                  height={Math.max(1, tall - 1.5)}
                  rx="1.5"
                />
              );
            })}
            <text x={step / 2 - 2} y={height + 28}>
              {batch} × {accumulation}
            </text>
          </g>
        ))}
      </svg>
    </figure>
  );
}
