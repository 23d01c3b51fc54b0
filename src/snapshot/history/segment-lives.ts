import { segmentStep } from '../../estimate/allocator/sizes.js';
import { action } from '../records/known-strings.js';
import { type DeviceSnapshot, type Names, rowOf } from '../snapshot.js';
import { type Held, heldAt, pageKey, pageType, pageWalk, segmentType } from './held-segments.js';
import { before, never } from './lives.js';

/** A segment, or one page of an expandable segment, from when it was taken to when it was returned. */
export interface SegmentLife {
  readonly offset: number;
  readonly bytes: number;
  readonly stream: number;
  readonly type: Held['type'];
  readonly isPage: boolean;
  /** The event that took it from the driver, or `before`. */
  readonly born: number;
  /** The event that returned it to the driver, or `never`. */
  freed: number;
}

/** 512 GiB of pages: further ones are left out, so that a file with made-up sizes takes no machine. */
const maxLives = 2 ** 18;

/** Every segment that the recording shows. */
export function segmentLives(device: DeviceSnapshot, names: Names): SegmentLife[] {
  const { events } = device;
  const lives: SegmentLife[] = [];
  const open = { segments: new Map<number, SegmentLife>(), pages: new Map<number, SegmentLife>() };
  const begin = (held: Held, isPage: boolean, born: number) => {
    if (lives.length >= maxLives) return;
    const life = { ...held, isPage, born, freed: never };
    lives.push(life);
    open[isPage ? 'pages' : 'segments'].set(pageKey(held.offset), life);
  };
  const end = (offset: number, isPage: boolean, index: number) => {
    const map = open[isPage ? 'pages' : 'segments'];
    const life = map.get(pageKey(offset));
    if (life) life.freed = index;
    map.delete(pageKey(offset));
  };
  const eachPage = pageWalk();
  const start = heldAt(device, names, before);
  for (const held of start.segments.values()) begin(held, false, before);
  for (const held of start.pages.values()) begin(held, true, before);
  for (let index = 0; index < events.length; index += 1) {
    const row = rowOf(events, index);
    const offset = names.offset[events.address[row] ?? -1] ?? 0;
    const bytes = events.bytes[row] ?? 0;
    const stream = events.stream[row] ?? 0;
    switch (events.action[row] ?? action.other) {
      case action.segmentAlloc:
        end(offset, false, index);
        begin({ offset, bytes, stream, type: segmentType(bytes) }, false, index);
        break;
      case action.segmentFree:
        end(offset, false, index);
        break;
      case action.segmentMap:
        eachPage(offset, bytes, (page) => {
          const held = { offset: page, bytes: segmentStep, stream, type: pageType(bytes) };
          if (!open.pages.has(pageKey(page))) begin(held, true, index);
        });
        break;
      case action.segmentUnmap:
        eachPage(offset, bytes, (page) => end(page, true, index));
        break;
      default:
    }
  }
  return lives;
}
