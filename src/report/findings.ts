import { Failure } from '../failure.js';
import type { AttemptSnapshot } from '../run/types.js';
import { analyseSnapshot, type SnapshotAnalysis } from '../snapshot/analyse.js';
import { frameText, isOwn } from '../snapshot/answer/frame-place.js';
import type { OutOfMemoryEvent } from '../snapshot/answer/out-of-memory.js';
import { recordingOf } from '../snapshot/document.js';
import { readSnapshot } from '../snapshot/read-snapshot.js';
import { type Frame, rowOf } from '../snapshot/snapshot.js';
import { formatBytes } from '../units/bytes.js';
import { formatSeconds } from '../units/durations.js';
import { isKnown, type Provenance } from '../units/known.js';
import type { DeviceReport } from './profile-report.js';
import { causeWords, count, etaWords, percentWords, rateWords, usedOfTotal } from './words.js';

/** One thing a person should know, in a sentence, and where it comes from. */
export interface Finding {
  readonly level: 'fine' | 'notice' | 'warning' | 'critical';
  readonly text: string;
  readonly provenance: Provenance;
}

/**
 * What a profile found out about a device, the most telling facts in words.
 *
 * @example
 * deviceFindings(report.devices['gpu:0']).map((finding) => finding.text);
 */
export function deviceFindings(device: DeviceReport): Finding[] {
  return [...presence(device), usage(device), forecast(device), ...leaks(device), ...cause(device)];
}

function presence(device: DeviceReport): Finding[] {
  if (device.present) return [];
  const text = 'The device was gone at the end; the figures are the last that were read.';
  return [{ level: 'warning', text, provenance: device.provenance }];
}

function usage(device: DeviceReport): Finding {
  const { provenance, statistics, loadLine, currentUsage } = device;
  const now = `At the end ${usedOfTotal(currentUsage.usedBytes, currentUsage.totalBytes)} were used`;
  if (!isKnown(statistics.peakBytes)) return { level: 'notice', text: `${now}.`, provenance };
  const when = isKnown(statistics.peakAtSeconds)
    ? ` after ${formatSeconds(statistics.peakAtSeconds)}`
    : '';
  const peak = `${now}; the peak was ${formatBytes(statistics.peakBytes)}${when}`;
  if (!isKnown(loadLine.bytes)) return { level: 'notice', text: `${peak}.`, provenance };
  const over = statistics.peakBytes - loadLine.bytes;
  const text = `${peak}, ${formatBytes(Math.abs(over))} ${over > 0 ? 'above' : 'below'} the load line.`;
  return { level: over > 0 ? 'warning' : 'fine', text, provenance };
}

function forecast({ forecast: seen, limit }: DeviceReport): Finding {
  const provenance = 'estimated';
  if (!isKnown(seen.risk))
    return { level: 'notice', text: `No forecast: ${seen.reason}`, provenance };
  if (seen.etaSeconds === 0) return { level: 'critical', text: seen.reason, provenance };
  const eta = etaWords(seen);
  if (seen.etaSeconds === 'unknown') {
    const text = `When the memory will be full is not known yet. ${seen.reason}`;
    return { level: 'notice', text, provenance };
  }
  if (eta === undefined) {
    return { level: 'fine', text: `No out-of-memory expected. ${seen.reason}`, provenance };
  }
  const aim = limit.of === 'allocator' ? "The allocator's limit" : 'The limit';
  const level = seen.risk === 'critical' ? 'critical' : seen.risk === 'high' ? 'warning' : 'notice';
  const text = `${aim} is reached in ${eta}. ${seen.reason} Risk ${seen.risk}, confidence ${percentWords(seen.confidence * 100)}.`;
  return { level, text, provenance };
}

function leaks({ leak, processLeaks, processes }: DeviceReport): Finding[] {
  const found: Finding[] = [];
  if (leak.found === true) {
    found.push({
      level: 'warning',
      text: `A leak: ${leak.reason} Confidence ${percentWords(leak.confidence * 100)}.`,
      provenance: 'estimated',
    });
  }
  if (leak.found === 'unknown' && isKnown(leak.bytesPerSecond)) {
    const text = `Whether memory leaks is unknown. ${leak.reason}`;
    found.push({ level: 'notice', text, provenance: 'estimated' });
  }
  for (const grower of processLeaks) {
    if (grower.found !== true) continue;
    const process = isKnown(processes)
      ? processes.find((candidate) => candidate.pid === grower.pid)
      : undefined;
    const name = process && isKnown(process.name) ? ` (${process.name})` : '';
    found.push({
      level: 'warning',
      text: `Process ${grower.pid}${name} grows by ${rateWords(grower.bytesPerSecond)} (confidence ${percentWords(grower.confidence * 100)}).`,
      provenance: 'estimated',
    });
  }
  return found;
}

function cause({ cause: seen, leak }: DeviceReport): Finding[] {
  // A leak that was found has its own sentence already.
  if (seen === 'none' || seen === 'unknown' || (seen === 'leak' && leak.found === true)) return [];
  return [{ level: 'notice', text: `Likely cause: ${causeWords(seen)}.`, provenance: 'estimated' }];
}

/** Fragmentation above this share of reserved memory is worth doing something about. */
const muchStuck = 0.15;
/** Other settings are named where they would save at least this share of reserved memory. */
const worthSaving = 0.02;

/**
 * What a snapshot tells, the most telling facts in words, the gravest first.
 *
 * @example
 * snapshotFindings(analyseSnapshot(snapshot)).map((finding) => finding.text);
 */
export function snapshotFindings(analysis: SnapshotAnalysis): Finding[] {
  const all = [
    ...analysis.outOfMemory.slice(-3).flatMap((event) => outOfMemory(event, analysis)),
    ...leakFindings(analysis),
    held(analysis),
    fragmentation(analysis),
    ...savings(analysis),
    ...doubts(analysis),
  ];
  const order = ['critical', 'warning', 'fine', 'notice'];
  return all.toSorted((a, b) => order.indexOf(a.level) - order.indexOf(b.level));
}

/** Where an allocation comes from, in one line: the user's own frame, and what it called. */
export function originText(frames: readonly Frame[]): string {
  const [innermost] = frames;
  if (innermost === undefined) return 'no frames recorded';
  const own = frames.find(isOwn);
  if (own === undefined || own === innermost) return frameText(innermost);
  return `${frameText(innermost)}, called from ${frameText(own)}`;
}

/** Seconds since the first event. */
export function secondsAt({ device }: SnapshotAnalysis, index: number): number {
  const { events } = device;
  if (events.length === 0 || index < 0) return 0;
  const timeAt = (at: number) => events.timeUs[rowOf(events, at)] ?? 0;
  return (timeAt(index) - timeAt(0)) / 1e6;
}

function held(analysis: SnapshotAnalysis): Finding {
  const { figures, history, device } = analysis;
  const now = `${formatBytes(figures.allocatedBytes)} are allocated and ${formatBytes(figures.reservedBytes)} reserved`;
  const { allocatedBytes, index } = history.peakAllocated;
  const peak =
    device.events.length === 0
      ? 'no recording, so the peak is unknown'
      : `the recorded peak was ${formatBytes(allocatedBytes)}, ${formatSeconds(secondsAt(analysis, index))} after the recording began`;
  return { level: 'fine', text: `${now}; ${peak}.`, provenance: 'measured' };
}

function leakFindings({ leaks: found, snapshot }: SnapshotAnalysis): Finding[] {
  const { steps } = found;
  if (steps.starts.length < 3) {
    const text = 'Leaks: unknown. Fewer than 3 steps of a loop were recorded.';
    return [{ level: 'notice', text, provenance: 'estimated' }];
  }
  if (found.leaks.length === 0) {
    const text = `No leak: over ${count(steps.starts.length, 'step')} no stack grew step by step without being freed.`;
    return [{ level: 'fine', text, provenance: 'estimated' }];
  }
  return found.leaks.map((leak) => {
    const { heldWith } = leak;
    const hanging =
      heldWith.count === 0
        ? ''
        : ` ${formatBytes(heldWith.bytes)} more in ${count(heldWith.count, 'block')} hang on them, made on the way there (as a rule what autograd keeps).`;
    const rate = isKnown(leak.bytesPerSecond) ? `, ${rateWords(leak.bytesPerSecond)}` : '';
    const text = `Leak: ${count(leak.count, 'tensor')} of ${originText(snapshot.names.stack(leak.stack))} are never freed: ${formatBytes(leak.bytes)} so far, ${formatBytes(leak.bytesPerStep)} a step${rate}.${hanging}`;
    return { level: 'critical', text, provenance: 'estimated' } as const;
  });
}

function fragmentation({ fragmentation: found, figures }: SnapshotAnalysis): Finding {
  const [pool] = found.pools.toSorted((a, b) => b.stuckBytes - a.stuckBytes);
  const request = formatBytes(pool?.requestBytes ?? 0);
  const share = percentWords(found.share * 100, 1);
  const text = `Fragmentation ${share}: ${formatBytes(found.stuckBytes)} of the ${formatBytes(figures.reservedBytes)} reserved are free in pieces too small for the largest recent request (${request}) and cannot be given back; ${formatBytes(found.releasableBytes)} more are free and could be.`;
  return { level: found.share > muchStuck ? 'warning' : 'fine', text, provenance: 'measured' };
}

const reasons: Readonly<Record<OutOfMemoryEvent['cause'], (event: OutOfMemoryEvent) => string>> = {
  fragmentation: ({ freeBytes, elsewhereBytes, largestFreeBytes }) =>
    `${formatBytes(freeBytes + elsewhereBytes)} were free inside the allocator, but broken up: the largest piece it could use had ${formatBytes(largestFreeBytes)}`,
  limit: ({ deviceFreeBytes, reservedBytes, segmentBytes }) =>
    `the device had ${formatBytes(deviceFreeBytes)} left, but a limit of the process (set_per_process_memory_fraction) between ${formatBytes(reservedBytes)} and ${formatBytes(reservedBytes + segmentBytes)} forbade to take it`,
  full: ({ deviceFreeBytes, freeBytes }) =>
    `the device had ${formatBytes(deviceFreeBytes)} left and the allocator ${formatBytes(freeBytes)}: it was full`,
};

function outOfMemory(event: OutOfMemoryEvent, analysis: SnapshotAnalysis): Finding[] {
  const { names } = analysis.snapshot;
  const when = formatSeconds(secondsAt(analysis, event.index));
  const most = event.holders
    .slice(0, 3)
    .map(({ stack, bytes }) => `${formatBytes(bytes)} ${originText(names.stack(stack))}`)
    .join('; ');
  const text = `Out of memory after ${when}: ${originText(names.stack(event.stack))} asked for ${formatBytes(event.askedBytes)} with ${formatBytes(event.allocatedBytes)} allocated of ${formatBytes(event.reservedBytes)} reserved; ${reasons[event.cause](event)}.`;
  const holders = `When memory ran out, the most was held by: ${most}.`;
  return [
    { level: 'critical', text, provenance: 'measured' },
    { level: 'warning', text: holders, provenance: 'measured' },
  ];
}

function savings({ whatIfs, outOfMemory: failures }: SnapshotAnalysis): Finding[] {
  if (whatIfs === undefined) return [];
  const { asRecorded, others } = whatIfs;
  const [best] = others.toSorted((a, b) => a.peakReservedBytes - b.peakReservedBytes);
  if (best === undefined) return [];
  const saved = asRecorded.peakReservedBytes - best.peakReservedBytes;
  const rescue = failures.length > 0 && asRecorded.servesOutOfMemory === false;
  const saver = rescue ? others.find(({ servesOutOfMemory }) => servesOutOfMemory) : undefined;
  const rescued: Finding[] = saver
    ? [
        {
          level: 'warning',
          text: `With ${saver.conf} the request that ran out of memory would have been served within the same limit.`,
          provenance: 'simulated',
        },
      ]
    : [];
  if (saved < asRecorded.peakReservedBytes * worthSaving) return rescued;
  const text = `With ${best.conf} this run would have reserved ${formatBytes(best.peakReservedBytes)} instead of ${formatBytes(asRecorded.peakReservedBytes)} at its peak.`;
  return [...rescued, { level: 'warning', text, provenance: 'simulated' }];
}

function doubts(analysis: SnapshotAnalysis): Finding[] {
  const { allocatedAtStartBytes, driftBytes } = recordingOf(analysis);
  const doubtful: string[] = [];
  if (allocatedAtStartBytes > 0 && analysis.device.events.length > 0) {
    doubtful.push(
      `${formatBytes(allocatedAtStartBytes)} were allocated before the recording began (or its oldest events were overwritten): the peak is that of the recording.`,
    );
  }
  if (driftBytes !== 0 && analysis.device.events.length > 0) {
    doubtful.push(
      `The recording does not reach to the snapshot: ${formatBytes(Math.abs(driftBytes))} differ at its end.`,
    );
  }
  return doubtful.map((text) => ({ level: 'notice', text, provenance: 'measured' }));
}

/** Reads the snapshot that an attempt left behind, and adds what it tells. */
export async function explainSnapshot(snapshot: AttemptSnapshot): Promise<AttemptSnapshot> {
  // Without a GPU the SDK writes its own short account, for people to read.
  if (!snapshot.file.endsWith('.pickle')) return snapshot;
  try {
    const analysis = analyseSnapshot(await readSnapshot(snapshot.file));
    return { ...snapshot, findings: snapshotFindings(analysis).map(({ text }) => text) };
  } catch (error) {
    // What lies beside a run must not make it fail.
    if (!(error instanceof Failure)) throw error;
    return { ...snapshot, findings: [`It could not be read: ${error.message}`] };
  }
}
