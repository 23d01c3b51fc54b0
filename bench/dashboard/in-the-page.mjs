// Runs inside of the page: how long frames take, and what holds the page up, over some seconds.

/** As text, so that the policy of the page need not allow anything: the browser runs it itself. */
export function measuring(seconds, scroll) {
  return `new Promise((resolve) => {
    const frames = [];
    let longMs = 0;
    let longest = 0;
    const observer = new PerformanceObserver((list) => {
      for (const { duration } of list.getEntries()) {
        longMs += duration;
        longest = Math.max(longest, duration);
      }
    });
    observer.observe({ type: 'longtask' });
    const start = performance.now();
    let before = start;
    const frame = (now) => {
      frames.push(now - before);
      before = now;
      if (${scroll}) scrollBy(0, 40);
      if (now - start < ${seconds * 1000}) requestAnimationFrame(frame);
      else {
        observer.disconnect();
        resolve({ frames, longMs, longest, ms: now - start });
      }
    };
    requestAnimationFrame(frame);
  })`;
}
