import { loadLineOf } from '../../../device/load-line.js';
import { isKnown } from '../../../units/known.js';
import type { Column, DeviceState } from '../../../watch/types.js';
import { overTime } from '../charts/over-time.js';
import { sparkRows } from '../charts/sparkline.js';
import type { Span, TextStyle } from '../spans.js';

/** What drawing a device needs to know beside the device. */
export interface DeviceView {
  readonly columns: number;
  readonly nowSeconds: number;
  readonly loadLinePercent: number;
  readonly style: TextStyle;
}

/** A minute until one has passed, then five: a scale that changes all the time cannot be read. */
export function recentSeconds({ nowSeconds }: DeviceView): number {
  return nowSeconds <= 60 ? 60 : 300;
}

/** How busy the device was over the last minutes, from idle to fully busy, as rows of blocks. */
export function busyRows(
  state: DeviceState,
  view: DeviceView,
  width: number,
  height: number,
): Span[][] {
  const values = recent(state, view, 'utilization', width);
  const options = { width, height, top: 100, line: Infinity, style: view.style };
  return sparkRows(values, options).map((row) =>
    row.map(({ text, paint }) => ({ text, paint: paint === 'cyan' ? 'green' : paint })),
  );
}

/** Used memory over the last minutes, from empty to full, as rows of blocks. */
export function recentRows(
  state: DeviceState,
  view: DeviceView,
  width: number,
  height: number,
): Span[][] {
  const values = recent(state, view, 'used', width);
  const total = state.latest.totalBytes;
  const top = isKnown(total) ? total : Math.max(...values.filter((value) => value >= 0), 1);
  const line = isKnown(total) ? loadLineOf(total, { share: view.loadLinePercent / 100 }) : Infinity;
  return sparkRows(values, { width, height, top, line, style: view.style });
}

function recent(state: DeviceState, view: DeviceView, column: Column, width: number): number[] {
  const fromSeconds = view.nowSeconds - recentSeconds(view);
  const range = { fromSeconds, toSeconds: view.nowSeconds };
  const series = state.history.series(column, {
    fromSeconds: Math.max(0, fromSeconds),
    toSeconds: view.nowSeconds,
    maxPoints: Math.max(2, width * 2),
  });
  return overTime(series, range, width);
}
