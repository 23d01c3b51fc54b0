import { buildRows, parentRows, scopeOf, scopesOf } from '../../report/monitor/build-rows.js';
import { orderRows } from '../../report/monitor/order-rows.js';
import type { ProcessRow } from '../../report/monitor/process-row.js';
import type { MonitorView } from '../../report/monitor/view.js';
import { isKnown } from '../../units/known.js';
import type { DeviceState } from '../../watch/types.js';
import type { ProcessWatch } from './process-watch.js';

/** The processes that a view shows, and what they were chosen from. */
export interface Listed {
  readonly rows: readonly ProcessRow[];
  /** The scope that holds: the one asked for may be gone. */
  readonly scope: string;
  readonly scopes: readonly string[];
  readonly noRows: string;
}

export function listProcesses(
  view: MonitorView,
  states: readonly DeviceState[],
  processes: Pick<ProcessWatch, 'details' | 'trail'>,
  uptimeSeconds: number,
): Listed {
  const scope = scopeOf(view.scope, states);
  const { details, trail } = processes;
  const sources = { states, details, trail, uptimeSeconds };
  const rows = buildRows(scope, sources);
  const parents = view.tree ? parentRows(rows, sources) : [];
  return {
    rows: orderRows(rows, parents, view),
    scope,
    scopes: scopesOf(states),
    noRows: emptyWords(view, states, scope, rows.length),
  };
}

function emptyWords(
  view: MonitorView,
  states: readonly DeviceState[],
  scope: string,
  found: number,
): string {
  if (found > 0) return `No process matches "${view.filter}": Esc clears the filter.`;
  const asked = states.filter(({ info }) =>
    scope === 'gpus' ? info.kind === 'gpu' : info.id === scope,
  );
  const isHidden = asked.some((state) => !isKnown(state.processes));
  return isHidden
    ? 'The processes could not be seen: see "plimsoll doctor".'
    : 'No process holds memory here. d shows those of another device.';
}
