// Makes docs/recording.svg: a terminal in which real commands run, with what they really printed.
// Waiting is shortened and lines of the estimate are left out; nothing else is changed. Needs Linux, `script` (util-linux) and a .venv.
//
//   npm run build && npm run recording
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { runInTerminal } from './recording/run-in-terminal.mjs';
import { readTerminal } from './recording/terminal-lines.mjs';
import { recordingSvg } from './recording/terminal-svg.mjs';
import { root } from './steps.mjs';

const columns = 92;
/** A person reads on meanwhile; longer waiting tells nothing. */
const longestWaitSeconds = 1.1;

/** What is typed, how many of the lines that it prints are shown, and which of the others. */
const commands = [
  {
    typed: 'plimsoll estimate gpt2 --batch 16 --seq 1024 --precision amp-bf16 --gpu 3060',
    lines: 5,
    also: /^It (does not|should|surely)? ?fits?\b/,
  },
  {
    typed:
      'plimsoll run --memory 1100MiB --device host --batch-size 96 -- python train.py --batch-size {batch_size} --accumulate {accumulation}',
    lines: 30,
  },
];

const home = mkdtempSync(join(tmpdir(), 'plimsoll-recording-'));
try {
  const shown = [];
  let at = 0.5;
  for (const { typed, lines, also } of commands) {
    shown.push({
      at,
      spans: [
        { text: '$ ', colour: 'green' },
        { text: typed, colour: 'bold' },
      ],
    });
    at += 1.2;
    const output = await runInTerminal(typed, { columns, home, root });
    let before = 0;
    const printed = readTerminal(output).filter(
      ({ spans }, index) => index < lines || also?.test(spans.map(({ text }) => text).join('')),
    );
    for (const line of printed) {
      at += Math.min(longestWaitSeconds, Math.max(0.06, line.seconds - before));
      before = line.seconds;
      shown.push({ at, spans: line.spans });
    }
    at += 1.4;
    shown.push({ at, spans: [] });
  }
  const title =
    'plimsoll: an estimate without a GPU, then a run that runs out of memory and recovers';
  writeFileSync(`${root}docs/recording.svg`, recordingSvg(shown, { columns, title }));
  console.log(`docs/recording.svg: ${shown.length} lines, ${at.toFixed(0)} s`);
} finally {
  rmSync(home, { recursive: true, force: true });
}
