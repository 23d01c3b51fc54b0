/**
 * How many values two lists share in the same order (their longest common subsequence), and where
 * they first differ. By Myers' greedy search: quick when they are nearly alike.
 */
export function sharedInOrder(a, b) {
  let firstDifference = 0;
  while (firstDifference < a.length && a[firstDifference] === b[firstDifference]) {
    firstDifference += 1;
  }
  if (firstDifference === a.length && a.length === b.length) return { length: a.length };
  const edits = shortestEdit(a, b);
  return { length: (a.length + b.length - edits) / 2, firstDifference };
}

/** The fewest removals and insertions that make `b` of `a`. */
function shortestEdit(a, b) {
  const most = a.length + b.length;
  // How far into `a` the diagonals reach; only every second one is in use at a time.
  const reached = new Int32Array(2 * most + 3);
  const middle = most + 1;
  for (let edits = 0; edits <= most; edits += 1) {
    for (let diagonal = -edits; diagonal <= edits; diagonal += 2) {
      const left = reached[middle + diagonal - 1];
      const right = reached[middle + diagonal + 1];
      const down = diagonal === -edits || (diagonal !== edits && left < right);
      let x = down ? right : left + 1;
      let y = x - diagonal;
      while (x < a.length && y < b.length && a[x] === b[y]) {
        x += 1;
        y += 1;
      }
      reached[middle + diagonal] = x;
      if (x >= a.length && y >= b.length) return edits;
    }
  }
  return most;
}
