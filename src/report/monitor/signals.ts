import { count } from '../words.js';
import type { ProcessRow } from './build-rows.js';
import type { MonitorSignal, MonitorView, SignalTarget } from './view.js';

const verbs: Readonly<Record<MonitorSignal, string>> = {
  SIGINT: 'Interrupt',
  SIGTERM: 'Ask to end',
  SIGKILL: 'Kill',
};

/** Asks before a signal is sent: to all that are tagged, else to the selected process. */
export function askForSignal(
  view: MonitorView,
  rows: readonly ProcessRow[],
  signal: MonitorSignal,
): MonitorView {
  const chosen = rows.filter(({ key }) =>
    view.tagged.size > 0 ? view.tagged.has(key) : key === view.selected,
  );
  if (chosen.length === 0) return { ...view, message: 'Select a process first: Down.' };
  if (chosen.some(({ isSimulated }) => isSimulated)) {
    return { ...view, message: 'This process is simulated: there is nothing to end.' };
  }
  // A process on two GPUs has two rows, and gets one signal.
  const targets = new Map(
    chosen.map(({ pid, started, command, user }): [number, SignalTarget] => [
      pid,
      { pid, started, command, user },
    ]),
  );
  return { ...view, prompt: { kind: 'confirm', signal, targets: [...targets.values()] } };
}

/** The question, short enough for one line, and what it is about. */
export function confirmWords(signal: MonitorSignal, targets: readonly SignalTarget[]): string {
  const [only] = targets;
  if (targets.length === 1 && only !== undefined) {
    return `${verbs[signal]} (${signal}) ${only.pid} of ${only.user}? y = yes, any other key = no: ${only.command}`;
  }
  const pids = targets.map(({ pid }) => pid).join(', ');
  return `${verbs[signal]} (${signal}) ${count(targets.length, 'process', 'processes')}? y = yes, any other key = no: ${pids}`;
}
