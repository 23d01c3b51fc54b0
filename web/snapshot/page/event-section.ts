import type { LifeFacts } from '../answer/describe.js';
import type { NearEvent } from '../answer/near.js';
import type { Opened } from '../answer/open.js';
import { type AllocatorState, blockFields, type SegmentState } from '../answer/state.js';
import { type Ask, newestOnly } from './ask.js';
import { css, shade } from './colours.js';
import { byId, make, onButtons, sharp } from './elements.js';
import { bytesText, countText, lifeText, secondsText } from './words.js';

/** Events that are listed before and after the chosen one. */
const around = 6;
const rowsShown = 12;

const kinds: Readonly<Record<NearEvent['kind'], string>> = {
  allocated: 'allocated',
  freed: 'freed',
  completed: 'free completed',
  returned: 'no longer in use by its stream',
  segment: 'segment taken from the driver',
  'segment-returned': 'segment returned to the driver',
  oom: 'out of memory',
  other: 'an allocation that is left out',
};

export interface EventSection {
  /** The tick that was chosen. */
  tick(): number;
  choose(tick: number): void;
  highlight(stack: number): void;
  draw(): void;
}

/** The allocator's state at an event, what happened around it, and the largest allocations then. */
export function openEventSection(
  ask: Ask,
  opened: Opened,
  acts: {
    readonly changed: (tick: number) => void;
    readonly picked: (life: number, below: HTMLElement) => void;
  },
): EventSection {
  const last = opened.ticks - 1;
  let tick = last;
  const map = openStateMap(opened.placeOfStack, ({ life }) =>
    acts.picked(life, byId('map-readout')),
  );
  const input = document.querySelector<HTMLInputElement>('#event-number');
  if (input === null) throw new Error('the page has no number of an event');
  input.max = String(opened.events);

  const load = newestOnly(async (wanted: number) => {
    const [state, near] = await Promise.all([
      ask('state', wanted),
      ask('near', [wanted - around, wanted + around]),
    ]);
    byId('state-words').textContent = stateWords(state, opened);
    bar(state);
    map.show(state);
    byId('near').replaceChildren(...near.map(nearItem));
    byId('largest').replaceChildren(...state.largest.slice(0, rowsShown).map(lifeRow));
  });
  const choose = (wanted: number) => {
    tick = Math.max(0, Math.min(last, Math.round(wanted)));
    input.value = String(Math.min(opened.events, tick * opened.group));
    acts.changed(tick);
    load(tick);
  };
  const nearItem = (event: NearEvent) => {
    const button = make('button', '');
    button.setAttribute('type', 'button');
    if (event.tick === tick) button.setAttribute('aria-current', 'true');
    const size = event.bytes === undefined ? '' : `${bytesText(event.bytes)} `;
    button.append(
      make('i', '', countText(event.tick * opened.group)),
      make('span', '', `${size}${kinds[event.kind]}`),
      make('small', '', event.title),
    );
    button.addEventListener('click', () => {
      choose(event.tick);
      if (event.life !== undefined) acts.picked(event.life, byId('near'));
    });
    return make('li', '', button);
  };
  const lifeRow = (life: LifeFacts) => {
    const button = make('button', 'link', life.title);
    button.setAttribute('type', 'button');
    button.addEventListener('click', () => acts.picked(life.life, byId('largest-table')));
    return make(
      'tr',
      '',
      make('td', 'number', bytesText(life.bytes)),
      make('td', 'name', button, make('small', '', lifeText(life))),
    );
  };
  const { marks } = opened;
  const goes: Readonly<Record<string, () => number>> = {
    first: () => 0,
    previous: () => tick - 1,
    next: () => tick + 1,
    peak: () => marks.peak,
    // The last one before here, or else the last of all.
    oom: () => marks.outOfMemory.findLast((one) => one < tick) ?? marks.outOfMemory.at(-1) ?? tick,
    last: () => last,
  };
  onButtons('event', (name) => choose(goes[name]?.() ?? tick));
  input.addEventListener('change', () => {
    const wanted = Number(input.value);
    choose(Number.isFinite(wanted) ? wanted / opened.group : tick);
  });
  choose(last);
  return {
    tick: () => tick,
    choose,
    highlight: (stack) => map.highlight(stack),
    draw: () => map.draw(),
  };
}

function stateWords(state: AllocatorState, { group, events, ticks }: Opened): string {
  const where =
    events === 0 || state.tick === ticks - 1
      ? 'At the snapshot'
      : state.tick === 0
        ? 'Before the first event'
        : `After event ${countText(state.tick * group)} of ${countText(events)}`;
  const when =
    state.seconds === undefined || events === 0
      ? ''
      : `, ${secondsText(state.seconds, 0.02)} after the recording began`;
  const pending =
    state.pendingBytes > 0 ? `, ${bytesText(state.pendingBytes)} freed but in use by a stream` : '';
  const drawn = state.segmentCount - state.segments.length;
  const left = drawn > 0 ? ` The ${countText(drawn)} smallest segments are not drawn.` : '';
  return `${where}${when}: ${bytesText(state.usedBytes)} used by ${countText(state.count)} allocations${pending}, ${bytesText(state.cachedBytes)} cached (free in segments), ${bytesText(state.reservedBytes)} reserved in ${countText(state.segmentCount)} segments. The largest free block has ${bytesText(state.largestFreeBytes)}.${left}`;
}

function bar(state: AllocatorState): void {
  const whole = Math.max(1, state.usedBytes + state.pendingBytes + state.cachedBytes);
  for (const [id, bytes] of [
    ['bar-used', state.usedBytes],
    ['bar-pending', state.pendingBytes],
    ['bar-cached', state.cachedBytes],
  ] as const) {
    byId(id).style.width = `${(bytes / whole) * 100}%`;
  }
}

const rowHeight = 17;
const left = 78;
const right = 8;
const unitBytes = 512;

interface Block {
  readonly bytes: number;
  readonly life: number;
  readonly stack: number;
  readonly pending: boolean;
}

/** The map of segments at the chosen event: each a row, its blocks in their place. */
function openStateMap(
  placeOfStack: Int16Array,
  picked: (block: Block) => void,
): { show(state: AllocatorState): void; draw(): void; highlight(stack: number): void } {
  const box = byId('segment-map');
  const canvas = box.querySelector('canvas');
  if (canvas === null) throw new Error('the map has no canvas');
  let segments: readonly SegmentState[] = [];
  let [row, block, only] = [-1, -1, -1];

  // A square root, so that segments of 2 MiB stay visible beside those of GiB.
  const widthOf = (bytes: number, width: number) =>
    Math.max(20, Math.sqrt(bytes / (segments[0]?.bytes ?? 1)) * (width - left - right));
  const draw = () => {
    const { pen, width } = sharp(canvas, Math.max(1, segments.length) * rowHeight + 8);
    const [chip, soft, ink] = [css('chip'), css('soft'), css('ink')];
    pen.font = '11.5px system-ui, sans-serif';
    pen.textAlign = 'right';
    segments.forEach((segment, at) => {
      const [y, w] = [4 + at * rowHeight, widthOf(segment.bytes, width)];
      const scale = (w * unitBytes) / segment.bytes;
      pen.fillStyle = at === row ? ink : soft;
      pen.fillText(bytesText(segment.bytes), left - 8, y + rowHeight / 2 - 1);
      pen.fillStyle = chip;
      pen.fillRect(left, y, w, rowHeight - 4);
      eachBlock(segment, (start, units, stack, pending, index) => {
        pen.globalAlpha = only >= 0 && only !== stack ? 0.3 : 1;
        pen.fillStyle = pending ? css('warning') : shade(placeOfStack[stack] ?? -1);
        const [x, size] = [left + start * scale, Math.max(0.6, units * scale - 0.4)];
        pen.fillRect(x, y, size, rowHeight - 4);
        if (at !== row || index !== block) return;
        pen.strokeStyle = ink;
        pen.lineWidth = 2;
        pen.strokeRect(x, y, Math.max(2, size), rowHeight - 4);
      });
      pen.globalAlpha = 1;
    });
  };
  const say = () => {
    const segment = segments[row];
    if (!segment) return;
    const hit = blockAt(segment, block);
    const words = `${segment.address}, ${bytesText(segment.bytes)} (${segment.kind}), ${bytesText(segment.bytes - segment.usedBytes)} free`;
    const which =
      hit &&
      `; block of ${bytesText(hit.bytes)}${hit.pending ? ', freed but in use by a stream' : ''}`;
    byId('map-readout').textContent = words + (which ?? '');
  };
  const find = (event: MouseEvent) => {
    const edge = canvas.getBoundingClientRect();
    row = Math.floor((event.clientY - edge.top - 4) / rowHeight);
    block = -1;
    const segment = segments[row];
    if (!segment) return;
    const share = (event.clientX - edge.left - left) / widthOf(segment.bytes, edge.width);
    const wanted = (share * segment.bytes) / unitBytes;
    eachBlock(segment, (start, units, _stack, _pending, index) => {
      if (wanted >= start && wanted < start + units) block = index;
    });
  };
  const pick = () => {
    const segment = segments[row];
    const hit = segment && blockAt(segment, block);
    if (hit) picked(hit);
  };
  canvas.addEventListener('pointermove', (event) => {
    find(event);
    say();
  });
  canvas.addEventListener('click', (event) => {
    find(event);
    say();
    pick();
    draw();
  });
  box.addEventListener('keydown', (event) => {
    const rows = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const blocks = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (rows !== undefined) {
      row = Math.max(0, Math.min(segments.length - 1, row + rows));
      block = -1;
    } else if (blocks !== undefined) {
      row = Math.max(0, row);
      const count = (segments[row]?.blocks.length ?? 0) / blockFields;
      block = Math.max(0, Math.min(count - 1, block + blocks));
    } else if (event.key === 'Enter') pick();
    else return;
    event.preventDefault();
    box.scrollTop = Math.max(0, row * rowHeight - box.clientHeight / 2);
    say();
    draw();
  });
  return {
    show(state) {
      ({ segments } = state);
      [row, block] = [-1, -1];
      draw();
    },
    draw,
    highlight(stack) {
      only = stack;
      draw();
    },
  };
}

function eachBlock(
  { blocks }: SegmentState,
  visit: (start: number, units: number, stack: number, pending: boolean, index: number) => void,
): void {
  for (let at = 0; at < blocks.length; at += blockFields) {
    const [start, units, stack] = [blocks[at] ?? 0, blocks[at + 1] ?? 0, blocks[at + 3] ?? 0];
    visit(start, units, stack, blocks[at + 4] === 1, at / blockFields);
  }
}

function blockAt({ blocks }: SegmentState, index: number): Block | undefined {
  if (index < 0 || (index + 1) * blockFields > blocks.length) return undefined;
  const at = index * blockFields;
  const [, units = 0, life = 0, stack = 0, pending = 0] = blocks.subarray(at, at + blockFields);
  return { bytes: units * unitBytes, life, stack, pending: pending === 1 };
}
