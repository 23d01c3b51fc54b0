// What is compared: the Fleet view, and a bare page that fetches the same answer and shows as many rows of text.

/** Runs in the page before anything else: notes when the first row was painted. */
export const noteFirstPaint = `(() => {
  const look = () => {
    if (document.querySelector('.node-row') === null) return requestAnimationFrame(look);
    // After the frame that has it: a message comes once that frame is handed over.
    const channel = new MessageChannel();
    channel.port1.onmessage = () => { window.firstPaint = performance.now(); };
    requestAnimationFrame(() => channel.port2.postMessage(0));
  };
  requestAnimationFrame(look);
})()`;

/** Milliseconds from the end of the answer to the first painted row; null until it is painted. */
export const paintedAfter = `(() => {
  const answer = performance.getEntriesByType('resource').find(({ name }) => name.endsWith('/fleet'));
  return window.firstPaint === undefined || answer === undefined || answer.responseEnd === 0
    ? null
    : window.firstPaint - answer.responseEnd;
})()`;

export const barePage = `<!doctype html><html lang="en"><meta charset="utf-8"><title>Bare rows</title>
<style>body { margin: 0; font: 14px sans-serif } .node-row { height: 64px; border-bottom: 1px solid #ddd }</style>
<main></main>
<script>
fetch('fleet').then((answer) => answer.json()).then(({ nodes }) => {
  const main = document.querySelector('main');
  for (const { name, devices } of nodes) {
    const row = document.createElement('div');
    row.className = 'node-row';
    row.textContent = name + ' ' + devices.map((device) =>
      device.id + ' ' + Math.round((device.usedBytes / device.totalBytes) * 100) + ' %').join(' ');
    main.append(row);
  }
});
</script></html>`;
