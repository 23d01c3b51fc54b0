import { edge, empty, rest } from '../answer/view.js';

let scheme: MediaQueryList | undefined;
const hues = [206, 28, 152, 345, 268, 48, 184, 0, 122, 310, 228, 76];

/** Asked for at the first colour, because tests import this file where there is no page. */
function dark(): MediaQueryList {
  scheme ??= matchMedia('(prefers-color-scheme: dark)');
  return scheme;
}

export function onColourChange(draw: () => void): void {
  dark().addEventListener('change', draw);
}

/** A colour of the page's style. */
export function css(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** The colour of the stack in this place; below 0: one of the rest. */
export function shade(place: number, darker = 0): string {
  const base = dark().matches ? 58 : 60;
  if (place < 0) return `hsl(210 6% ${(dark().matches ? 42 : 74) - darker}%)`;
  const hue = hues[place % hues.length] ?? 0;
  const round = Math.floor(place / hues.length) % 3;
  return `hsl(${hue} ${dark().matches ? 48 : 52}% ${base - round * 11 - darker}%)`;
}

/** Colours for the numbers of a picture, as it lies in memory; `only`: the others fade. */
export function palette(only: number | undefined): Uint32Array {
  const pen = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const colours = new Uint32Array(256);
  if (pen === null) return colours;
  pen.canvas.width = 1;
  pen.canvas.height = 1;
  for (let number = 0; number < empty; number += 1) {
    const isRest = number === rest || number % edge === edge - 1;
    const place = isRest ? -1 : number % edge;
    if (place >= hues.length * 3) continue;
    pen.clearRect(0, 0, 1, 1);
    pen.globalAlpha = only === undefined || only === place ? 1 : 0.28;
    pen.fillStyle = shade(place, number >= edge && number !== rest ? 16 : 0);
    pen.fillRect(0, 0, 1, 1);
    colours[number] = new Uint32Array(pen.getImageData(0, 0, 1, 1).data.buffer)[0] ?? 0;
  }
  return colours;
}
