/** How often a hidden page takes in what happened. */
const hiddenMs = 1000;

/**
 * Gathers what happens between two frames of the screen and hands it on at once. A page in the
 * background gets no frames: a timer stands in for them.
 */
export function createFrameQueue<T>(take: (items: readonly T[]) => void): (item: T) => void {
  let items: T[] = [];
  let scheduled = false;
  const flush = (): void => {
    scheduled = false;
    const taken = items;
    items = [];
    take(taken);
  };
  return (item) => {
    items.push(item);
    if (scheduled) return;
    scheduled = true;
    if (document.hidden) setTimeout(flush, hiddenMs);
    else requestAnimationFrame(flush);
  };
}
