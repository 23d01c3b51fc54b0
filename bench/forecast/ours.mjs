import { parseRecordedTrace } from '../../dist/device/recorded-trace.js';
import { replayTrace } from '../../dist/watch/diagnosis/replay.js';

/** Our alarms from the first `high` on, as `plimsoll replay` lists them. */
export function ours(trace) {
  const { alarms } = replayTrace(parseRecordedTrace(JSON.stringify(trace), trace.name));
  return alarms.filter(({ risk }) => risk === 'high' || risk === 'critical');
}
