import { formatSeconds } from '../../units/durations.js';
import { deviceFindings } from '../findings.js';
import type { ProfileReport } from '../report-shape.js';
import { count } from '../words.js';
import { cleanText } from './text-width.js';

/**
 * What a profile found, as the lines that end `plimsoll profile`.
 *
 * @example
 * console.log(profileSummary(report));
 */
export function profileSummary(report: ProfileReport): string {
  const devices = Object.values(report.devices);
  const samples = devices.reduce((sum, device) => sum + device.statistics.samplesCount, 0);
  const raised = report.alerts.filter((alert) => alert.state === 'raised').length;
  const stopped = report.interrupted ? ', interrupted' : '';
  const lines = [
    `${count(samples, 'sample')} of ${count(devices.length, 'device')} in ${formatSeconds(report.durationSeconds)}${stopped}, ${count(raised, 'alert')}.`,
  ];
  for (const device of devices) {
    lines.push('', `${device.id}  ${device.name} (${device.provenance})`);
    for (const finding of deviceFindings(device)) {
      lines.push(`  ${finding.text} [${finding.provenance}]`);
    }
    for (const advice of device.forecast.recommendations) lines.push(`  To do: ${advice}`);
  }
  return lines.map(cleanText).join('\n');
}
