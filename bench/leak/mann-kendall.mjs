const windowSeconds = 30;
/** Two-sided 1 %. */
const certain = 2.576;

/** Whether the usual test for a trend claims growth over any 30 s of what is live. */
export function mannKendall(trace) {
  const at = trace.columns.indexOf('seconds');
  const live = trace.columns.indexOf('allocated');
  for (let end = windowSeconds; end <= trace.rows.at(-1)[at]; end += 5) {
    const window = trace.rows.filter((row) => row[at] > end - windowSeconds && row[at] <= end);
    const n = window.length;
    let score = 0;
    for (let i = 0; i < n; i++) {
      for (let j = i + 1; j < n; j++) score += Math.sign(window[j][live] - window[i][live]);
    }
    const spread = Math.sqrt((n * (n - 1) * (2 * n + 5)) / 18);
    if (score > 0 && (score - 1) / spread > certain) return true;
  }
  return false;
}
