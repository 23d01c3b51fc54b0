// Runs the command line as often as its parent asks, one call after another: to load the command takes longer
// than most of its answers. `node command-host.mjs MAIN`; each message is a call, and its answer is one.
import { pathToFileURL } from 'node:url';

const { main } = await import(pathToFileURL(process.argv[2] ?? '').href);

process.on('message', (call) => void answer(call));
process.send?.('ready');

async function answer({ argv, cwd, environment }) {
  process.chdir(cwd);
  for (const name of Object.keys(process.env)) delete process.env[name];
  Object.assign(process.env, environment);
  const [stdout, stderr] = [kept(), kept()];
  const exitCode = await main(argv, { environment, folder: process.cwd(), stdout, stderr });
  process.send?.({ stdout: stdout.text(), stderr: stderr.text(), exitCode });
}

/** An output that is no terminal and never closes. */
function kept() {
  const parts = [];
  return {
    isTerminal: false,
    colour: false,
    columns: () => 120,
    closed: new AbortController().signal,
    failure: undefined,
    write: (text) => parts.push(text),
    drained: () => Promise.resolve(),
    text: () => parts.join(''),
  };
}
