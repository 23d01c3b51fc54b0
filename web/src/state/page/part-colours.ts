import { partClasses, partVariables } from '../../../../src/report/part-looks.js';

/** The colours of parts of memory, from the table that reports and terminals use as well. */
export function adoptPartColours(): void {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(
    `:root { ${partVariables('light')} } :root[data-theme="dark"] { ${partVariables('dark')} } ${partClasses}`,
  );
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
}
