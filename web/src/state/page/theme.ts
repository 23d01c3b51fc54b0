import { partClasses, partVariables } from '../../../../src/report/estimate-words.js';
import { createStore } from '../live/store.js';
import { remember, remembered } from './remembered.js';

export const themes = ['system', 'light', 'dark'] as const;
export type Theme = (typeof themes)[number];

export const theme = createStore<Theme>(
  themes.find((one) => one === remembered('theme')) ?? 'system',
);
/** Rises when the colours changed, by the switch or by the system: charts are drawn anew. */
export const colourVersion = createStore(0);

export function nextTheme(): void {
  const at = themes.indexOf(theme.get());
  theme.set(themes[(at + 1) % themes.length] ?? 'system');
  remember('theme', theme.get());
  applyTheme();
}

function applyTheme(): void {
  const dark = matchMedia('(prefers-color-scheme: dark)').matches;
  const chosen = theme.get();
  document.documentElement.dataset['theme'] =
    chosen === 'system' ? (dark ? 'dark' : 'light') : chosen;
  colourVersion.set(colourVersion.get() + 1);
}

export function followSystemTheme(): void {
  applyTheme();
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', applyTheme);
}

/** The colours of parts of memory, from the table that reports and terminals use as well. */
export function adoptPartColours(): void {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(
    `:root { ${partVariables('light')} } :root[data-theme="dark"] { ${partVariables('dark')} } ${partClasses}`,
  );
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
}
