import { formatBytes } from '../units/bytes.js';
import { formatSeconds } from '../units/durations.js';
import { isKnown, type Provenance } from '../units/known.js';
import type { DeviceReport } from './report-shape.js';
import { causeWords, etaWords, percentWords, rateWords, usedOfTotal } from './words.js';

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
