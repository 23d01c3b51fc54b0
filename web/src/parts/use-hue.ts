import { plainHue } from '../charts/hues.js';
import { board } from '../state/live/live.js';
import { useStore } from '../state/live/store.js';

/** The class that gives a job its colour, the same all over the page. */
export function hueClass(jobId: string): string {
  return `hue-${board.get().hues.get(jobId) ?? plainHue(jobId)}`;
}

export function useHue(jobId: string): string {
  return `hue-${useStore(board, ({ hues }) => hues.get(jobId)) ?? plainHue(jobId)}`;
}
