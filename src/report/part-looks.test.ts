import { describe, expect, it } from 'vitest';
import { contrast } from '../../test/web/audit.js';
import { parts } from '../estimate/types.js';
import { type PartLook, partClasses, partLooks, partVariables } from './estimate-words.js';

/** Degrees on the colour wheel that a paint of the terminal stands for; undefined is grey. */
const hues: Readonly<Record<string, readonly [from: number, to: number] | undefined>> = {
  red: [-15, 15],
  yellow: [20, 55],
  green: [60, 150],
  cyan: [160, 190],
  blue: [195, 240],
  magenta: [265, 345],
  white: undefined,
  dim: undefined,
};

function hueOf(colour: string): { readonly degrees: number; readonly isGrey: boolean } {
  const [red = 0, green = 0, blue = 0] = [1, 3, 5].map(
    (at) => Number.parseInt(colour.slice(at, at + 2), 16) / 255,
  );
  const [most, least] = [Math.max(red, green, blue), Math.min(red, green, blue)];
  const span = most - least;
  const degrees =
    most === red
      ? ((green - blue) / span) * 60
      : most === green
        ? 120 + ((blue - red) / span) * 60
        : 240 + ((red - green) / span) * 60;
  return { degrees: degrees < -20 ? degrees + 360 : degrees, isGrey: span < 0.13 };
}

function fitsPaint({ paint }: PartLook, colour: string): boolean {
  const range = hues[paint.replace('Bright', '')];
  const { degrees, isGrey } = hueOf(colour);
  return range === undefined ? isGrey : !isGrey && degrees >= range[0] && degrees <= range[1];
}

describe('the looks of parts', () => {
  it('have a letter and colours of their own for each part', () => {
    const all = parts.map((part) => partLooks[part]);
    for (const key of ['letter', 'light', 'dark'] as const) {
      expect(new Set(all.map((look) => look[key])).size).toBe(parts.length);
    }
  });

  it('have the same hue on a terminal and on pages, in light and dark', () => {
    const odd = parts.flatMap((part) => {
      const look = partLooks[part];
      return [look.light, look.dark]
        .filter((colour) => !fitsPaint(look, colour))
        .map((colour) => `${part}: ${look.paint} and ${colour}`);
    });
    expect(odd).toEqual([]);
  });

  it('stand out from the ground of pages', () => {
    const poor = parts.filter((part) => {
      const { light, dark } = partLooks[part];
      return contrast(light, '#ffffff') < 3 || contrast(dark, '#161c24') < 3;
    });
    expect(poor).toEqual([]);
  });

  it('are variables and classes of a style sheet', () => {
    expect(partVariables('light')).toContain('--part-weights: #2f6690;');
    expect(partVariables('dark')).toContain('--part-weights: #7fb2dc;');
    expect(partClasses).toContain('.part-kv-cache { fill: var(--part-kv-cache);');
  });
});
