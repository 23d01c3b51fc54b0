// A thousand open event streams on the real server, with eight simulated devices read at 10 Hz and jobs
// that change: how many events arrive, how late, and what that costs the server; beside a bare node:http
// server that writes the same bytes to as many streams, in the same run.
//
//   npm run build && node bench/streams.mjs [--streams 1000] [--seconds 10] [--gpus 8] [--hz 10] [--jobs 10]
//     [--json]
//
// Delays include the clients, which share the machine. Ends with exit code 1 when a stream was cut off or
// an event of a job did not arrive.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { parseArgs } from 'node:util';

const MiB = 2 ** 20;
const serverFile = new URL('./streams/server.mjs', import.meta.url);
const clientsFile = new URL('./streams/clients.mjs', import.meta.url);
/** The clients that also look at the time of each event. */
const readers = 50;
/** Code gets compiled and buffers grow; a server that has run for a while is measured. */
const warmUpMs = 3000;
const { values } = parseArgs({
  options: {
    streams: { type: 'string', default: '1000' },
    seconds: { type: 'string', default: '10' },
    gpus: { type: 'string', default: '8' },
    hz: { type: 'string', default: '10' },
    jobs: { type: 'string', default: '10' },
    json: { type: 'boolean', default: false },
  },
});
const { streams, seconds, gpus, hz, jobs } = Object.fromEntries(
  Object.entries(values).map(([name, value]) => [name, Number(value)]),
);

const bare = await measure('bare');
const ours = await measure('ours');
const ratio = ours.cpuSeconds / ours.delivered / (bare.cpuSeconds / bare.delivered);
const complete = ours.cut === 0 && ours.share > 0.99;
if (values.json) {
  console.log(
    JSON.stringify({ streams, seconds, ours, bare, cpuRatio: ratio, complete }, undefined, 2),
  );
} else {
  console.log(
    [
      `${streams} event streams, ${gpus} devices at ${hz} Hz and ${jobs} changes of jobs a second, for ${seconds} s`,
      `${''.padEnd(12)}${['events/s', 'arrived', 'MiB/s', 'p50 ms', 'p99 ms', 'CPU', 'us/event', 'memory', 'KiB/stream'].map((name) => name.padStart(11)).join('')}`,
      line('bare http', bare),
      line('plimsoll', ours),
      `An event to a stream costs ${ratio.toFixed(2)} x the processor time of the bare server.`,
      complete ? 'No stream was cut off.' : `${ours.cut} streams were cut off.`,
    ].join('\n'),
  );
}
process.exitCode = complete ? 0 : 1;

async function measure(kind) {
  const server = start(serverFile, [kind, gpus, hz, jobs]);
  const { port, rssBytes: emptyBytes } = await heard(server, 'ready');
  const clients = start(clientsFile, [port, streams, Math.min(readers, streams)]);
  try {
    await heard(clients, 'ready');
    await wait(warmUpMs);
    await asked(server, 'begin');
    await asked(clients, 'begin');
    await wait(seconds * 1000);
    const used = await asked(server, 'end');
    const got = await asked(clients, 'end');
    return figures(used, got, emptyBytes);
  } finally {
    clients.kill();
    server.kill();
  }
}

function figures(
  { cpuSeconds, rssBytes, events },
  { events: delivered, bytes, cut, delays },
  empty,
) {
  const sorted = delays.toSorted((a, b) => a - b);
  const at = (share) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
  return {
    sent: events,
    delivered,
    share: delivered / (events * streams),
    eventsPerSecond: delivered / seconds,
    bytesPerSecond: bytes / seconds,
    p50Ms: at(0.5),
    p99Ms: at(0.99),
    cpuSeconds,
    cpuShare: cpuSeconds / seconds,
    rssBytes,
    bytesPerStream: (rssBytes - empty) / streams,
    cut,
  };
}

function line(name, one) {
  const cells = [
    one.eventsPerSecond.toFixed(0),
    `${(100 * one.share).toFixed(1)} %`,
    (one.bytesPerSecond / MiB).toFixed(1),
    one.p50Ms.toFixed(1),
    one.p99Ms.toFixed(1),
    `${(100 * one.cpuShare).toFixed(0)} %`,
    ((1e6 * one.cpuSeconds) / one.delivered).toFixed(1),
    `${(one.rssBytes / MiB).toFixed(0)} MiB`,
    (one.bytesPerStream / 1024).toFixed(0),
  ];
  return name.padEnd(12) + cells.map((cell) => cell.padStart(11)).join('');
}

function start(file, args) {
  const child = fork(file, args.map(String));
  child.once('exit', (code) => {
    if (code) throw new Error(`${file.pathname} ended with exit code ${code}`);
  });
  return child;
}

async function heard(child, word) {
  for (;;) {
    const [message] = await once(child, 'message');
    if (message.word === word) return message;
  }
}

function asked(child, word) {
  child.send(word);
  return heard(child, word);
}

function wait(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
