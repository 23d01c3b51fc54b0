/**
 * A daemon in a process of its own, to be killed. It submits jobs as fast as they are acknowledged, up
 * to so many, and prints a line for each; then it lets them run until somebody ends it.
 */
import { writeSync } from 'node:fs';
import { discoverDevices } from '../../device/discover.js';
import { localEngine } from '../../engine/local/local-engine.js';
import { openDaemon } from './open-daemon.js';

const [home = '', bin = '', folder = '', round = '', count = '0', script = ''] =
  process.argv.slice(2);
const environment = process.env;
const engine = localEngine({ home, command: [process.execPath, bin], environment, folder });
const discovery = await discoverDevices();
const variables = { useGpus: false, maxRunning: 4 };
const daemon = await openDaemon({ home, discovery, engine, environment, folder, variables });
writeSync(1, 'open\n');
for (let number = 0; number < Number(count); number++) {
  const submission = `${round}-${number}`;
  const { id } = await daemon.submit({
    command: ['sh', '-c', script, 'job', submission],
    memoryBytes: 32 * 1024 * 1024,
    submission,
  });
  writeSync(1, `submitted ${submission} ${id}\n`);
}
