const windowSeconds = 15;
const horizonSeconds = 30;

/**
 * An alarm at each reading at which the line through the last 15 s reaches the capacity within
 * 30 s. The line is the one that predict_linear fits.
 */
export function leastSquares(trace, columnName) {
  const column = trace.columns.indexOf(columnName);
  const at = trace.columns.indexOf('seconds');
  const alarms = [];
  for (const [i, row] of trace.rows.entries()) {
    const now = row[at];
    const window = trace.rows.slice(0, i + 1).filter((past) => past[at] > now - windowSeconds);
    // Before the window is full it would take every start for growth.
    if (now - trace.rows[0][at] < windowSeconds) continue;
    const meanT = window.reduce((sum, past) => sum + past[at], 0) / window.length;
    const meanY = window.reduce((sum, past) => sum + past[column], 0) / window.length;
    let up = 0;
    let down = 0;
    for (const past of window) {
      up += (past[at] - meanT) * (past[column] - meanY);
      down += (past[at] - meanT) ** 2;
    }
    if (down === 0) continue;
    const slope = up / down;
    const level = meanY + slope * (now - meanT);
    if (level + slope * horizonSeconds < trace.capacity) continue;
    const etaSeconds = slope > 0 ? Math.max(0, (trace.capacity - level) / slope) : 0;
    alarms.push({ atSeconds: now, etaSeconds });
  }
  return alarms;
}
