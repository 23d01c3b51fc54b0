// Draws the recorded series with what the forecast said at its first `high` alarm.
const cell = { width: 300, height: 150, left: 34, right: 12, top: 26, bottom: 22 };
const columnsOfCells = 3;
const points = 160;
const GiB = 1024 ** 3;

const style = `
  svg { background: #fff; color: #1d2733; font: 11px system-ui, sans-serif; }
  .title { font-weight: 600; font-size: 12px; }
  .quiet { fill: #5c6773; }
  .axis { stroke: #c9d1d9; } .limit { stroke: #b42318; stroke-dasharray: 4 3; }
  .reserved { stroke: #1f6feb; } .allocated { stroke: #8aa4bf; }
  .line { fill: none; stroke-width: 1.3; }
  .cone { fill: #d97706; opacity: 0.22; } .expected { stroke: #d97706; stroke-dasharray: 5 3; }
  .end { stroke: #1d2733; stroke-dasharray: 2 3; } text { fill: currentColor; }
  @media (prefers-color-scheme: dark) {
    svg { background: #0d1117; color: #e6edf3; } .quiet { fill: #9aa4af; }
    .axis { stroke: #30363d; } .end { stroke: #e6edf3; } .reserved { stroke: #58a6ff; }
    .allocated { stroke: #6e8299; } .limit { stroke: #ff7b72; }
  }`;

export function drawTraces(entries) {
  const rows = Math.ceil(entries.length / columnsOfCells);
  const width = columnsOfCells * cell.width;
  const height = rows * cell.height + 24;
  const cells = entries.map((entry, i) => {
    const x = (i % columnsOfCells) * cell.width;
    const y = Math.floor(i / columnsOfCells) * cell.height;
    return `<g transform="translate(${x} ${y})">${drawTrace(entry)}</g>`;
  });
  const legend =
    'blue: reserved, grey: allocated, red: limit, orange: the end expected at the first "high" ' +
    'alarm, with its bounds; dotted: the real end';
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" role="img" aria-labelledby="t">`,
    '<title id="t">Recorded memory of small training loops, and what the forecast expected</title>',
    `<style>${style}\n</style>`,
    ...cells,
    `<text class="quiet" x="${cell.left}" y="${height - 8}">${legend}</text>`,
    '</svg>\n',
  ].join('\n');
}

function drawTrace({ trace, alarm }) {
  const column = (name) => trace.columns.indexOf(name);
  const last = Math.max(trace.at, trace.rows.at(-1)[column('seconds')]);
  const inside = {
    width: cell.width - cell.left - cell.right,
    height: cell.height - cell.top - cell.bottom,
  };
  const x = (seconds) => cell.left + (Math.min(seconds, last) / last) * inside.width;
  const y = (bytes) => cell.top + (1 - bytes / (trace.capacity * 1.04)) * inside.height;
  const path = (name) => {
    const step = Math.max(1, Math.ceil(trace.rows.length / points));
    const corners = [];
    for (let i = 0; i < trace.rows.length; i += step) {
      // The highest of each stretch, so that no peak is lost.
      const part = trace.rows.slice(i, i + step);
      const row = part.reduce((a, b) => (b[column(name)] > a[column(name)] ? b : a));
      corners.push(`${x(row[column('seconds')]).toFixed(1)} ${y(row[column(name)]).toFixed(1)}`);
    }
    return `<path class="line ${name}" d="M${corners.join('L')}"/>`;
  };
  const base = y(0).toFixed(1);
  const top = y(trace.capacity).toFixed(1);
  return [
    `<text class="title" x="${cell.left}" y="16">${trace.scenario}</text>`,
    `<text class="quiet" x="${cell.left}" y="${cell.height - 8}">${verdict(trace, alarm)}</text>`,
    `<line class="axis" x1="${cell.left}" x2="${cell.width - cell.right}" y1="${base}" y2="${base}"/>`,
    `<line class="limit" x1="${cell.left}" x2="${cell.width - cell.right}" y1="${top}" y2="${top}"/>`,
    `<text class="quiet" x="${cell.left - 4}" y="${Number(top) + 4}" text-anchor="end">${trace.capacity / GiB} GiB</text>`,
    `<text class="quiet" x="${cell.width - cell.right}" y="${cell.height - 8}" text-anchor="end">${last.toFixed(0)} s</text>`,
    path('allocated'),
    path('reserved'),
    trace.ended === 'oom'
      ? `<line class="end" x1="${x(trace.at)}" x2="${x(trace.at)}" y1="${top}" y2="${base}"/>`
      : '',
    alarm ? cone(trace, alarm, x, y, column) : '',
  ].join('\n');
}

function verdict(trace, alarm) {
  if (trace.ended !== 'oom') return alarm ? 'false alarm' : 'survived, no alarm';
  if (!alarm) return 'out of memory, unannounced';
  return `warned ${(trace.at - alarm.atSeconds).toFixed(0)} s ahead`;
}

function cone(trace, alarm, x, y, column) {
  const row = trace.rows.findLast((past) => past[column('seconds')] <= alarm.atSeconds);
  const from = `${x(alarm.atSeconds).toFixed(1)} ${y(row[column('reserved')]).toFixed(1)}`;
  const to = (seconds) =>
    `${x(alarm.atSeconds + (seconds === 'never' ? 1e9 : seconds)).toFixed(1)} ${y(trace.capacity).toFixed(1)}`;
  return (
    `<path class="cone" d="M${from}L${to(alarm.lowSeconds)}L${to(alarm.highSeconds)}Z"/>` +
    `<path class="line expected" d="M${from}L${to(alarm.etaSeconds)}"/>`
  );
}
