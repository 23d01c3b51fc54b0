import type { Part } from '../estimate/types.js';
import type { Paint } from './text/charts/themes.js';

/** How a part of memory looks, wherever it is shown. */
export interface PartLook {
  /** On a terminal without colours. */
  readonly letter: string;
  /** On a terminal with colours: of the same hue as the colours of pages. */
  readonly paint: Paint;
  /** On pages, on a light and on a dark ground. */
  readonly light: string;
  readonly dark: string;
}

/**
 * The one table of the colours of parts: terminal, reports and dashboard take theirs from it. Each
 * stands out from its ground, and neighbours in a bar from one another.
 */
export const partLooks: Readonly<Record<Part, PartLook>> = {
  weights: { letter: 'W', paint: 'blue', light: '#2f6690', dark: '#7fb2dc' },
  gradients: { letter: 'G', paint: 'magenta', light: '#7a4f9e', dark: '#c3a0e0' },
  optimizer: { letter: 'O', paint: 'yellow', light: '#a8741a', dark: '#e0b45c' },
  activations: { letter: 'A', paint: 'cyan', light: '#0f7a6c', dark: '#5fd0bd' },
  temporary: { letter: 'T', paint: 'green', light: '#6f8f2f', dark: '#b5d36f' },
  workspace: { letter: 'K', paint: 'white', light: '#8a8f96', dark: '#aab2bb' },
  'kv-cache': { letter: 'V', paint: 'magenta', light: '#b0567a', dark: '#e89ab8' },
  gathered: { letter: 'P', paint: 'blueBright', light: '#3f7fbf', dark: '#8fc4f2' },
  reduce: { letter: 'R', paint: 'magentaBright', light: '#9a3f8f', dark: '#dd9ad2' },
  buckets: { letter: 'B', paint: 'yellowBright', light: '#b5651d', dark: '#f0a868' },
  communication: { letter: 'N', paint: 'cyanBright', light: '#3f7d7d', dark: '#86c6c6' },
  context: { letter: 'C', paint: 'dim', light: '#5a6572', dark: '#7d8996' },
  fragmentation: { letter: 'F', paint: 'red', light: '#c1301c', dark: '#ff7b62' },
};

const looks = Object.entries(partLooks);

/** The colours as variables, for the rules of a style sheet. */
export function partVariables(ground: 'light' | 'dark'): string {
  return looks.map(([part, look]) => `--part-${part}: ${look[ground]};`).join(' ');
}

/** Classes `part-weights`, `part-gradients`, ... that fill a shape or a box with their colour. */
export const partClasses = looks
  .map(([part]) => `.part-${part} { fill: var(--part-${part}); background: var(--part-${part}); }`)
  .join('\n');
