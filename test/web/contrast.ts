/** How well one colour stands out from another, 1 to 21, as WCAG counts it. Both are `#rrggbb` or `#rgb`. */
export function contrast(one: string, other: string): number {
  const [light = 1, dark = 1] = [luminance(one), luminance(other)].toSorted((a, b) => b - a);
  return (light + 0.05) / (dark + 0.05);
}

function luminance(colour: string): number {
  const channels = /^#(..?)(..?)(..?)$/.exec(colour)?.slice(1);
  if (channels === undefined) throw new Error(`${colour} is no colour`);
  const [red = 0, green = 0, blue = 0] = channels.map((hex) => {
    const share = Number.parseInt(hex.padEnd(2, hex), 16) / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}
