// What a person reads of the two phases, and the figures behind it.
const GiB = 2 ** 30;
const gib = (bytes) => (bytes === null ? 'unknown' : (bytes / GiB).toFixed(1));
const seconds = (value) => (value === null || value === undefined ? '-' : value.toFixed(1));

export function reportOf(alone, packed) {
  const before = new Map(alone.jobs.map((one) => [one.job, one]));
  const rows = packed.jobs.map((one) => [
    one.job,
    gib(one.reservedBytes),
    one.basis,
    gib(one.peakBytes),
    one.peakBytes ? signed(one.reservedBytes / one.peakBytes - 1) : '-',
    seconds(before.get(one.job)?.runSeconds),
    seconds(one.runSeconds),
    String(one.trained?.steps ?? '-'),
    one.outOfMemory > 0 ? `out of memory ${one.outOfMemory} x, ${one.state}` : one.state,
  ]);
  const names = ['job', 'reserved', 'basis', 'peak', 'off', 'alone s', 'packed s', 'steps', ''];
  const faster = alone.seconds / packed.seconds;
  const phases = [alone, packed];
  const wrong = phases.flatMap(({ name, jobs }) =>
    jobs
      .filter(({ state, outOfMemory }) => state !== 'succeeded' || outOfMemory > 0)
      .map((one) => ({ phase: name, one })),
  );
  const outOfMemory = sum(
    phases.flatMap(({ jobs }) => jobs),
    (one) => one.outOfMemory,
  );
  const ok = wrong.length === 0 && faster > 1;
  const text = [
    table([names, ...rows]),
    '',
    ...phases.map(summary),
    `Packed: ${faster.toFixed(2)} x as fast, ${(rate(packed) / rate(alone)).toFixed(2)} x the samples a second, ${outOfMemory} out of memory (GiB; "off" is reserved against measured).`,
    startless(alone, packed),
    ...wrong.map(
      ({ phase, one: { job, state, reason, log = '' } }) =>
        `\n${phase}: ${job} ${state}. ${reason}\n${log}`,
    ),
  ].join('\n');
  return {
    text,
    ok,
    figures: {
      faster,
      fasterWithoutStart: trainedSeconds(alone) / packedSeconds(packed),
      outOfMemory,
      samplesRatio: rate(packed) / rate(alone),
      phases,
    },
  };
}

function summary({
  name,
  seconds: took,
  estimatingSeconds,
  maxAtOnce,
  maxReservedBytes,
  maxUsedBytes,
  loadLineBytes,
  ...phase
}) {
  return `${name}: ${took.toFixed(1)} s from the first submit to the last end (all figures known after ${estimatingSeconds.toFixed(1)} s), ${rate({ ...phase, seconds: took }).toFixed(1)} samples a second, up to ${maxAtOnce} at once, ${gib(maxReservedBytes)} GiB reserved and ${gib(maxUsedBytes)} GiB used at most, load line ${gib(loadLineBytes)} GiB`;
}

/** Starting Python takes as long as some of these jobs train, so the training is told alone, too. */
function startless(alone, packed) {
  const [sequential, whole] = [trainedSeconds(alone), packedSeconds(packed)];
  return `Without the start of each program: ${seconds(sequential)} s of training one after another, ${seconds(whole)} s from the first step to the last when packed: ${(sequential / whole).toFixed(2)} x.`;
}

function trainedSeconds({ jobs }) {
  return sum(jobs, ({ trained }) => (trained ? trained.trainedTo - trained.trainedFrom : 0));
}

function packedSeconds({ jobs }) {
  const trained = jobs.flatMap((one) => (one.trained ? [one.trained] : []));
  const ends = trained.map(({ trainedTo }) => trainedTo);
  return Math.max(...ends) - Math.min(...trained.map(({ trainedFrom }) => trainedFrom));
}

function rate({ jobs, seconds: took }) {
  return sum(jobs, ({ trained }) => trained?.samples ?? 0) / took;
}

function sum(list, of) {
  return list.reduce((total, one) => total + of(one), 0);
}

function signed(share) {
  return `${share < 0 ? '' : '+'}${(100 * share).toFixed(1)} %`;
}

function table(rows) {
  const widths = rows[0].map((_, column) => Math.max(...rows.map((row) => row[column].length)));
  return rows
    .map((row) =>
      row
        .map((cell, column) =>
          column === 0 || column === row.length - 1
            ? cell.padEnd(widths[column])
            : cell.padStart(widths[column]),
        )
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}
