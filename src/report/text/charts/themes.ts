import type pico from 'picocolors';

/** A colour or a weight, as the terminal's own palette names it. */
export type Paint = Exclude<keyof ReturnType<typeof pico.createColors>, 'isColorSupported'>;

export const themeNames = ['terminal', 'light', 'contrast', 'colour-blind', 'mono'] as const;
export type ThemeName = (typeof themeNames)[number];

/** For each colour that is asked for, what the terminal is told; those left out are its own. */
export type Theme = Partial<Readonly<Record<Paint, string>>>;

/**
 * `terminal` uses the sixteen colours that a person has set in the terminal. `light` is for a white
 * background, `contrast` for projectors and tired eyes, `colour-blind` keeps apart what red and green
 * do not (blue, yellow, orange), `mono` has no hue at all.
 */
export const themes: Readonly<Record<ThemeName, Theme>> = {
  terminal: {},
  light: {
    dim: '38;5;242',
    cyan: '38;5;25',
    yellow: '38;5;94',
    red: '38;5;160',
    magenta: '38;5;90',
    green: '38;5;22',
  },
  contrast: {
    dim: '38;5;252',
    cyan: '1;38;5;51',
    yellow: '1;38;5;226',
    red: '1;38;5;231;48;5;124',
    magenta: '1;38;5;213',
    green: '1;38;5;46',
  },
  'colour-blind': {
    dim: '38;5;247',
    cyan: '38;5;39',
    yellow: '38;5;220',
    red: '1;38;5;208',
    magenta: '38;5;255',
    green: '38;5;75',
  },
  mono: { dim: '2', cyan: '0', yellow: '4', red: '1;4', magenta: '1', green: '0' },
};
