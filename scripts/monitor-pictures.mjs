// Makes docs/monitor-80x24.svg and docs/monitor-200x50.svg: `plimsoll monitor` with a simulated GPU that
// leaks, as a terminal shows it after a minute. Needs tmux.
//
//   npm run build && npm run monitor-pictures
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';
import { readTerminal } from './recording/terminal-lines.mjs';
import { recordingSvg } from './recording/terminal-svg.mjs';
import { root } from './steps.mjs';

const sizes = [
  [80, 24],
  [200, 50],
];
const shownAfterMs = 75_000;

/** A server of its own, so that no one's sessions are touched. */
function tmux(...words) {
  const argv = ['-L', 'plimsoll-pictures', '-f', '/dev/null', ...words];
  return execFileSync('tmux', argv, { encoding: 'utf8' });
}

const command = `"${process.execPath}" "${root}bin/plimsoll.js" monitor --simulate leak --devices 0 host`;
try {
  for (const [columns, rows] of sizes) {
    tmux('new-session', '-d', '-s', `s${columns}`, '-x', `${columns}`, '-y', `${rows}`, command);
  }
  await setTimeout(shownAfterMs);
  for (const [columns, rows] of sizes) {
    const text = tmux('capture-pane', '-e', '-p', '-t', `s${columns}`);
    const lines = readTerminal([{ seconds: 0, text }]).map(({ spans }) => ({ at: 0, spans }));
    const title = `plimsoll monitor at ${columns} x ${rows}, with a simulated GPU that leaks`;
    writeFileSync(
      `${root}docs/monitor-${columns}x${rows}.svg`,
      recordingSvg(lines, { columns, title }),
    );
  }
} finally {
  tmux('kill-server');
}
