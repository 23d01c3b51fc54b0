import type { LifeFacts } from '../answer/describe.js';
import type { NearEvent } from '../answer/near.js';
import type { Opened } from '../answer/open.js';
import type { AllocatorState } from '../answer/state.js';
import { type Ask, newestOnly } from './ask.js';
import { byId, make, onButtons } from './elements.js';
import { openStateMap } from './state-map.js';
import { bytesText, countText, lifeText, secondsText } from './words.js';

/** Events that are listed before and after the chosen one. */
const around = 6;
const rows = 12;

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
    byId('largest').replaceChildren(...state.largest.slice(0, rows).map(lifeRow));
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
