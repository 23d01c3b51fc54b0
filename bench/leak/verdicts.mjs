import { createDiagnosis } from '../../dist/watch/diagnosis/diagnose.js';

/** What a leak series must be called, and what must not be called one. */
const grows = new Set(['accelerating']);

/** The verdict each second: as the allocator reports it, or from outside, by what is held alone. */
function verdictsOf(trace, view) {
  const column = (name) => trace.columns.indexOf(name);
  const diagnosis = createDiagnosis();
  const verdicts = [];
  let second = -1;
  for (const row of trace.rows) {
    const seconds = row[column('seconds')];
    diagnosis.add({
      seconds,
      limitBytes: trace.capacity,
      heldBytes: row[column('reserved')],
      ...(view === 'inside' ? { liveBytes: row[column('allocated')] } : {}),
    });
    if (Math.floor(seconds) === second) continue;
    second = Math.floor(seconds);
    verdicts.push({ seconds, found: diagnosis.leak().found });
  }
  return verdicts;
}

/** When a leak was found, and for how long it could have been. */
export function judge(trace, view) {
  const verdicts = verdictsOf(trace, view);
  const first = verdicts.find(({ found }) => found === true)?.seconds;
  const leaks = trace.leak !== null;
  return {
    name: `${trace.scenario}-${trace.variant}`,
    view,
    group: Math.floor(trace.variant / 2),
    leaks,
    lastedSeconds: leaks ? trace.at - trace.leak.from : null,
    afterSeconds: leaks && first !== undefined ? first - trace.leak.from : null,
    falseAlarm: !leaks && !grows.has(trace.scenario) && first !== undefined,
    atSeconds: first ?? null,
  };
}
