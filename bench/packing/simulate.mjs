// Jobs on simulated GPUs in virtual time, decided by the real ledger, placement and queue.
import { admit, runningFrom } from '../../dist/jobs/admission.js';
import { inOrder } from '../../dist/jobs/admission-order.js';
import { correctEstimate, expectedSeconds } from '../../dist/jobs/corrections.js';
import { Ledger } from '../../dist/jobs/ledger.js';
import { place } from '../../dist/jobs/placement.js';
import { turnOf, WaitingList } from '../../dist/jobs/waiting-list.js';

/** How long after its end a reading shows that the memory of a job came back: devices are read at 10 Hz. */
const confirmSeconds = 0.1;

/**
 * Every job is as large as its peak from its first second to its last: the worst it can do to its
 * neighbours. The queue knows of run times only what earlier jobs of a workload took. A device that is
 * asked for more than it has is an out-of-memory.
 */
export function simulate(jobs, { devices, capacityBytes, decide }) {
  const ids = Array.from({ length: devices }, (_, index) => `gpu:${index}`);
  const ledger = new Ledger(ids.map((id) => ({ id, capacityBytes })));
  const byId = new Map(jobs.map((job) => [String(job.number), job]));
  const coming = jobs.toSorted((a, b) => a.atSeconds - b.atSeconds);
  const list = new WaitingList();
  const running = new Map();
  const runs = new Map();
  const seen = { outOfMemory: 0, tooLow: 0, maxAtOnce: 0, maxReserved: 0 };
  const waits = [];
  let now = 0;
  let holds = [];

  while (coming.length > 0 || list.size > 0 || running.size > 0) {
    while (coming[0]?.atSeconds <= now) list.add(waiting(coming.shift()));
    for (const id of ids) ledger.observe(id, reading(id));
    const state = { waiting: list.first(1000), running: [...running.values()], holds };
    const answer = decide({ ...state, rooms: ledger.rooms(), nowMs: now * 1000 });
    ({ holds } = answer);
    for (const { job, reservation } of answer.starts) start(job, reservation);
    const ends = [...running.values()].map(({ endsAt }) => endsAt);
    const next = Math.min(coming[0]?.atSeconds ?? Number.POSITIVE_INFINITY, ...ends);
    if (!Number.isFinite(next)) throw new Error('jobs wait, and nothing runs');
    now = Math.max(now, next);
    const ended = [...running.values()].filter(({ endsAt }) => endsAt <= now);
    for (const one of ended) end(one);
    if (ended.length > 0) now += confirmSeconds;
  }
  return { seconds: now - confirmSeconds, waits, ...seen };

  function start(job, reservation) {
    if (!ledger.reserve(job.id, reservation)) throw new Error('admitted past the load line');
    const { needs, seconds, atSeconds } = byId.get(job.id);
    waits.push(now - atSeconds);
    running.set(job.id, {
      ...runningFrom(job, reservation, now * 1000),
      endsAt: now + seconds,
    });
    list.remove(job.id);
    if (needs > reservation.bytes) seen.tooLow++;
    if (used(reservation.devices[0]) > capacityBytes) seen.outOfMemory++;
    seen.maxAtOnce = Math.max(seen.maxAtOnce, running.size);
    const reserved = ledger.rooms().map((room) => room.reservedBytes + room.releasingBytes);
    seen.maxReserved = Math.max(seen.maxReserved, ...reserved);
  }

  /** What it measured corrects those of its workload that still wait. */
  function end({ id }) {
    const job = byId.get(id);
    ledger.release(id, now);
    running.delete(id);
    const known = runs.get(job.id) ?? [];
    known.push({ peakBytes: job.needs, askedBytes: 'none', seconds: job.seconds });
    runs.set(job.id, known);
    for (const other of jobs) if (other.id === job.id) list.change(String(other.number), need(job));
  }

  function need({ id, estimated }) {
    const { bytes, basis } = correctEstimate(estimated, runs.get(id) ?? []);
    return { bytes, basis, expectedSeconds: expectedSeconds(runs.get(id) ?? []) };
  }

  function waiting(job) {
    const { id: workloadKey, number, atSeconds } = job;
    // A thousandth of a millisecond apart, so that those that come at once keep their order.
    const turn = turnOf(atSeconds * 1000 + number / 1000, 0);
    return { id: String(number), turn, gpus: 1, workloadKey, ...need(job) };
  }

  function reading(id) {
    const here = [...running.values()].filter((one) => one.reservation.devices.includes(id));
    const ours = new Map(here.map((one) => [one.id, byId.get(one.id).needs]));
    return { atSeconds: now, usedBytes: used(id), jobs: ours };
  }

  function used(id) {
    return [...running.values()]
      .filter((one) => one.reservation.devices.includes(id))
      .reduce((sum, one) => sum + byId.get(one.id).needs, 0);
  }
}

/** As the daemon decides. */
export function packed(policy) {
  return (state) => {
    const { waiting, running, rooms } = state;
    return admit({ ...state, waiting: inOrder(waiting, running, rooms) }, { policy });
  };
}

/** First in, first out; when the first job does not fit, all wait for it. */
export function firstCome({ waiting, rooms }) {
  const free = rooms.map((room) => ({ ...room }));
  const starts = [];
  for (const job of waiting) {
    const devices = place(free, job);
    if (devices === undefined) break;
    for (const room of free) if (devices.includes(room.id)) room.freeBytes -= job.bytes;
    starts.push({ job, reservation: { devices, bytes: job.bytes, basis: job.basis } });
  }
  return { starts, holds: [] };
}

/** A whole GPU for each job, in the same order: what most queues do. */
export function oneJobEach(jobs, devices) {
  const freeAt = Array.from({ length: devices }, () => 0);
  for (const { seconds } of jobs) {
    const first = freeAt.indexOf(Math.min(...freeAt));
    freeAt[first] += seconds;
  }
  return Math.max(...freeAt);
}

const sum = (list, of) => list.reduce((total, job) => total + of(job), 0);

/**
 * What nobody could beat who fills devices up to the load line: memory times time, the longest job,
 * and the jobs of more than half a device, no two of which fit on one.
 */
export function lowerBound(jobs, devices, loadLineBytes) {
  const large = jobs.filter(({ needs }) => needs > loadLineBytes / 2);
  return Math.max(
    sum(jobs, ({ needs, seconds }) => needs * seconds) / (devices * loadLineBytes),
    sum(large, ({ seconds }) => seconds) / devices,
    ...jobs.map(({ seconds }) => seconds),
  );
}
