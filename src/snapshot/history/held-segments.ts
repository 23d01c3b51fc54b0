import { segmentStep, sharedSegment, smallSegment } from '../../estimate/allocator/settings.js';
import { action } from '../records/known-strings.js';
import { type DeviceSnapshot, type Names, rowOf } from '../snapshot.js';
import { before, never } from './history.js';

interface Held {
  readonly offset: number;
  bytes: number;
  readonly stream: number;
  readonly type: 'small' | 'large';
}

/** Memory that the allocator holds of the driver: segments, and the pages of expandable ones. */
export interface HeldSegments {
  readonly segments: Map<number, Held>;
  readonly pages: Map<number, Held>;
}

/** The pool of a segment that is gone: only its size is known. */
function segmentType(bytes: number): Held['type'] {
  return bytes === smallSegment ? 'small' : 'large';
}

/** Pages for large blocks come in shared segments' size, those for small ones singly. */
function pageType(bytes: number): Held['type'] {
  return bytes % sharedSegment === 0 ? 'large' : 'small';
}

/** The key of a page in a map. Not its offset: large multiples of a power of two hash alike. */
function pageKey(offset: number): number {
  return offset / segmentStep;
}

/**
 * Pages in all that one pass goes through: more than any job maps, and few enough that a file with
 * made-up sizes ends soon.
 */
const maxPages = 2 ** 20;

/** Calls back for every page of a stretch; stops after `maxPages` of them in all. */
function pageWalk(): (offset: number, bytes: number, visit: (page: number) => void) => void {
  let left = maxPages;
  return (offset, bytes, visit) => {
    for (let at = offset; at < offset + bytes && left > 0; at += segmentStep) {
      left -= 1;
      visit(at);
    }
  };
}

/**
 * The segments now, with what happened after event `index` undone; -1: before the first. Both maps
 * are by address.
 */
export function heldAt(device: DeviceSnapshot, names: Names, index: number): HeldSegments {
  const { events } = device;
  const segments = new Map<number, Held>();
  const pages = new Map<number, Held>();
  const eachPage = pageWalk();
  const setPages = (held: Held) => {
    eachPage(held.offset, held.bytes, (offset) => {
      pages.set(pageKey(offset), { ...held, offset, bytes: segmentStep });
    });
  };
  for (const { address, totalBytes: bytes, stream, expandable, type } of device.segments) {
    const offset = names.offset[address] ?? 0;
    const held = { offset, bytes, stream, type: type === 'small' ? type : 'large' } as const;
    if (expandable) setPages(held);
    else segments.set(offset, held);
  }
  for (let at = events.length - 1; at > index; at -= 1) {
    const row = rowOf(events, at);
    const offset = names.offset[events.address[row] ?? -1] ?? 0;
    const bytes = events.bytes[row] ?? 0;
    const stream = events.stream[row] ?? 0;
    switch (events.action[row] ?? action.other) {
      case action.segmentAlloc:
        segments.delete(offset);
        break;
      case action.segmentFree:
        segments.set(offset, {
          offset,
          bytes,
          stream,
          type: segmentType(bytes),
        });
        break;
      case action.segmentMap:
        eachPage(offset, bytes, (page) => pages.delete(pageKey(page)));
        break;
      case action.segmentUnmap:
        setPages({ offset, bytes, stream, type: pageType(bytes) });
        break;
      default:
    }
  }
  return { segments, pages };
}

/** Pages that follow one another, as one stretch. */
export function joined(pages: ReadonlyMap<number, Held>): Held[] {
  const stretches: Held[] = [];
  for (const page of [...pages.values()].toSorted((a, b) => a.offset - b.offset)) {
    const last = stretches.at(-1);
    const follows = last && last.offset + last.bytes === page.offset;
    if (follows && last.stream === page.stream && last.type === page.type) last.bytes += page.bytes;
    else stretches.push({ ...page });
  }
  return stretches;
}

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
