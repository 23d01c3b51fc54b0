/** Does the work for all items, so many at a time; gives the answers in the items' order. */
export async function inParallel(workers, items, work) {
  const answers = [];
  let next = 0;
  let done = 0;
  const worker = async () => {
    while (next < items.length) {
      const at = next;
      next += 1;
      answers[at] = await work(items[at]);
      done += 1;
      progress(done, items.length);
    }
  };
  await Promise.all(Array.from({ length: workers }, worker));
  return answers;
}

/** One line that renews itself; where nobody watches, a line now and then. */
function progress(done, all) {
  if (process.stderr.isTTY) process.stderr.write(`\r${done} of ${all}${done === all ? '\n' : ''}`);
  else if (done % 20 === 0 || done === all) process.stderr.write(`${done} of ${all}\n`);
}
