const cell = { width: 8.1, height: 19 };
const edge = { side: 18, top: 44, bottom: 16 };
/** The end stays for this long before it begins anew. */
const holdSeconds = 7;

/** Light letters on a dark ground, each at least 4.5 to 1. */
const fills = {
  plain: '#d7dde4',
  bold: '#ffffff',
  dim: '#98a4b0',
  red: '#ff8f87',
  green: '#7ee2a8',
  yellow: '#f2cc60',
  blue: '#8cc8ff',
  magenta: '#e5a8ff',
  cyan: '#6fdcec',
};

/** An animated picture of a terminal; with motion turned off, all of it at once. */
export function recordingSvg(lines, { columns, title }) {
  const rows = lines.flatMap(({ at, spans }) =>
    wrapped(spans, columns).map((part) => ({ at, spans: part })),
  );
  while (rows.at(-1)?.spans.length === 0) rows.pop();
  const width = Math.ceil(columns * cell.width + 2 * edge.side);
  const height = Math.ceil(rows.length * cell.height + edge.top + edge.bottom);
  const total = Math.max(...rows.map(({ at }) => at)) + holdSeconds;
  const times = [...new Set(rows.map(({ at }) => at))];
  // Of a picture in which all is there at once nothing moves.
  const moving = times.length > 1 ? times : [];
  const styles = moving.map((at, index) => {
    const share = ((at / total) * 100).toFixed(2);
    return `@keyframes k${index}{0%,${share}%{opacity:0}${(Number(share) + 0.01).toFixed(2)}%,100%{opacity:1}}.k${index}{animation:k${index} ${total.toFixed(1)}s infinite}`;
  });
  const texts = rows.map(({ at, spans }, row) => {
    const y = edge.top + (row + 0.75) * cell.height;
    const parts = spans.map(
      ({ text, colour }) => `<tspan fill="${fills[colour ?? 'plain']}">${escaped(text)}</tspan>`,
    );
    return `<text class="k${times.indexOf(at)}" x="${edge.side}" y="${y.toFixed(1)}">${parts.join('')}</text>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-labelledby="t">
<title id="t">${escaped(title)}</title>
<style>text{font:13.5px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;white-space:pre}${styles.join('')}@media (prefers-reduced-motion:reduce){text{animation:none!important}}</style>
<rect width="${width}" height="${height}" rx="10" fill="#12181f"/>
<g fill="#4a5663"><circle cx="22" cy="20" r="6"/><circle cx="42" cy="20" r="6"/><circle cx="62" cy="20" r="6"/></g>
${texts.join('\n')}
</svg>
`;
}

/** Long lines go on below, as in a terminal. */
function wrapped(spans, columns) {
  const rows = [[]];
  let left = columns;
  for (const { text, colour } of spans) {
    for (let rest = text; rest !== ''; ) {
      const part = rest.slice(0, left);
      rows.at(-1).push({ text: part, colour });
      rest = rest.slice(part.length);
      left -= part.length;
      if (left === 0 && rest !== '') {
        rows.push([]);
        left = columns;
      }
    }
  }
  return rows;
}

function escaped(text) {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
