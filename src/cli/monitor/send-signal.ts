import type { MonitorSignal, SignalTarget } from '../../report/monitor/view.js';
import { readProcess } from '../../run/processes/process-table.js';

/** The part of the machine that is needed; tests hand in their own. */
export interface SignalMachine {
  readonly procRoot: string;
  readonly ownPid: number;
  readonly kill: (pid: number, signal: MonitorSignal) => void;
}

/**
 * Sends a signal to each of these processes, unless another has got its pid by now. Answers one
 * sentence for the person.
 */
export function sendSignal(
  targets: readonly SignalTarget[],
  signal: MonitorSignal,
  machine: SignalMachine,
): string {
  return targets.map((target) => sendOne(target, signal, machine)).join(' ');
}

function sendOne(
  { pid, started, user }: SignalTarget,
  signal: MonitorSignal,
  { procRoot, ownPid, kill }: SignalMachine,
): string {
  if (pid === ownPid) return 'This is plimsoll monitor itself: q leaves it.';
  if (pid <= 1 || started === undefined)
    return `${pid} was left alone: it is not known what it is.`;
  const now = readProcess(procRoot, pid);
  if (now?.started !== started || now.state === 'Z') return `${pid} has ended already.`;
  try {
    kill(pid, signal);
    return `${signal} was sent to ${pid}.`;
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    if (code === 'ESRCH') return `${pid} has ended already.`;
    if (code === 'EPERM') return `${pid} belongs to ${user}: only they, or root, may signal it.`;
    return `${pid}: ${String(error)}`;
  }
}
