export type ChartColours = ReturnType<typeof chartColours>;

/** The colours that hold now, for what is drawn on a canvas. */
export function chartColours() {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string): string => style.getPropertyValue(`--${name}`).trim();
  return {
    ground: colour('ground'),
    ink: colour('ink'),
    soft: colour('soft'),
    rule: colour('rule'),
    water: colour('water'),
    'water-fill': colour('water-fill'),
    band: colour('band'),
    accent: colour('accent'),
    'accent-fill': colour('accent-fill'),
    warning: colour('warning'),
    critical: colour('critical'),
  };
}
