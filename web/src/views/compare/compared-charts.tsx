import { type ComparedChart, comparedSize } from '../../charts/compared-lines.js';

const { width, height } = comparedSize;

/** One drawing for each figure, with a curve of each job. */
export function ComparedCharts(props: {
  charts: readonly ComparedChart[];
  names: readonly string[];
}) {
  const { charts, names } = props;
  if (charts.length === 0) return <p class="nothing">Neither has told enough for a curve.</p>;
  return (
    <>
      <p class="legend flat">
        {names.map((name, at) => (
          <span key={at} class="key-of-run">
            <i class={`swatch run-${at}`} />
            {name}
          </span>
        ))}
      </p>
      <div class="compared-charts">
        {charts.map(({ name, across, top, paths }) => (
          <figure key={name}>
            <figcaption>
              <b>{name}</b> up to {top}
            </figcaption>
            <svg
              viewBox={`0 0 ${width} ${height}`}
              preserveAspectRatio="none"
              role="img"
              aria-label={`${name} of ${names.join(' and of ')}, up to ${top}, over ${across}`}
            >
              {paths.map((path, at) => (
                <polyline key={at} class={`run-${at}`} points={path} />
              ))}
            </svg>
            <small>{across}</small>
          </figure>
        ))}
      </div>
    </>
  );
}
