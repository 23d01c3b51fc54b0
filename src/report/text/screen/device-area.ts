import { isKnown } from '../../../units/known.js';
import { type DeviceState, risks } from '../../../watch/types.js';
import type { ScreenHits } from '../../monitor/hits.js';
import { count, percentOf } from '../../words.js';
import { type Span, span, spansWidth } from '../spans.js';
import { compactDevices } from './screen-compact.js';
import { deviceBlock } from './screen-device.js';
import type { DeviceView } from './screen-recent.js';

export interface DeviceArea {
  readonly lines: Span[][];
  /** Rows count from the first line of the area. */
  readonly hits: ScreenHits['devices'];
}

/** From here on a device has a block of its own; below it has one line. */
const leastBlock = 3;
/** A block narrower than this cannot tell what it has to. */
const leastBlockColumns = 30;
/** Two blocks stand side by side where each has this many columns. */
const besideColumns = 70;
const gutter = 3;

/** Blocks when each device can have one, else a line each, else those that matter most. */
export function deviceArea(
  states: readonly DeviceState[],
  view: DeviceView,
  rows: number,
  compact = false,
): DeviceArea {
  if (rows < 1) return { lines: [], hits: [] };
  if (states.length === 0) return { lines: [[span('No device is seen.', 'dim')]], hits: [] };
  const most = Math.max(1, Math.floor((view.columns + gutter) / (besideColumns + gutter)));
  const down = Math.ceil(states.length / most);
  // Nine devices stand in threes where four would fit: no line of the grid is nearly empty.
  const across = Math.ceil(states.length / down);
  const roomy = rows >= down * leastBlock && view.columns >= leastBlockColumns;
  return roomy && !compact
    ? blocks(states, view, { rows, across, down })
    : lines(states, view, rows);
}

function lines(states: readonly DeviceState[], view: DeviceView, rows: number): DeviceArea {
  const shown = states.length <= rows ? states : maxUrgent(states, Math.max(1, rows - 1));
  const more = states.length - shown.length;
  const all = [
    ...compactDevices(shown, view),
    ...(more > 0 ? [[span(`and ${count(more, 'more device')}`, 'dim')]] : []),
  ];
  const hits = shown.map(({ info }, index) => ({
    id: info.id,
    top: index,
    bottom: index + 1,
    left: 0,
    right: view.columns,
  }));
  return { lines: all.slice(0, rows), hits: hits.slice(0, rows) };
}

/** A grid of blocks: all blocks of one line of the grid are equally high. */
function blocks(
  states: readonly DeviceState[],
  view: DeviceView,
  { rows, across, down }: { rows: number; across: number; down: number },
): DeviceArea {
  const width = Math.floor((view.columns - gutter * (across - 1)) / across);
  // Blank lines between the blocks only where they do not cost one of three lines.
  const gap = rows - (down - 1) >= down * (leastBlock + 1) ? 1 : 0;
  const all = states.map((state) => deviceBlock(state, { ...view, columns: width }));
  const tallest = (line: number) =>
    Math.max(...all.slice(line * across, (line + 1) * across).map(({ fullHeight }) => fullHeight));
  let left = rows - gap * (down - 1);
  const area: Span[][] = [];
  const hits: ScreenHits['devices'][number][] = [];
  for (let line = 0; line < down; line++) {
    const height = Math.min(tallest(line), Math.floor(left / (down - line)));
    left -= height;
    if (line > 0 && gap > 0) area.push([]);
    const top = area.length;
    const cells = all.slice(line * across, (line + 1) * across).map((block) => block.lines(height));
    for (let row = 0; row < height; row++) {
      area.push(cells.flatMap((cell, index) => padded(cell[row] ?? [], index, width)));
    }
    cells.forEach((_, index) => {
      const id = states[line * across + index]?.info.id ?? '';
      const from = index * (width + gutter);
      hits.push({ id, top, bottom: top + height, left: from, right: from + width });
    });
  }
  return { lines: area, hits };
}

/** To its full width, with the gutter before it unless it is the first. */
function padded(line: readonly Span[], index: number, width: number): Span[] {
  const rest = Math.max(0, width - spansWidth(line));
  return [...(index > 0 ? [span(' '.repeat(gutter))] : []), ...line, span(' '.repeat(rest))];
}

function maxUrgent(states: readonly DeviceState[], shown: number): DeviceState[] {
  const kept = new Set(
    states.toSorted((one, other) => urgency(other) - urgency(one)).slice(0, shown),
  );
  return states.filter((state) => kept.has(state));
}

/** Risk first; between equal risks, how full. */
function urgency({ forecast, latest }: DeviceState): number {
  const percent = percentOf(latest.usedBytes, latest.totalBytes);
  const risk = isKnown(forecast.risk) ? risks.indexOf(forecast.risk) : 0;
  return risk * 1000 + (isKnown(percent) ? Math.min(percent, 999) : 0);
}
