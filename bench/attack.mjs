// Attacks on a real server of this machine: processes killed at random, servers started at once, hostile
// connections, fork bombs, damaged files, a full disk, a clock that jumps, another user. Everything stays
// on the loopback address and in folders of its own.
//
//   npm run build && node bench/attack.mjs [--only NAME[,NAME]] [--times N] [--small] [--seed N]
//     [--output FILE.md] [--verbose] [--json]
//
// The promises: nothing is lost, nothing runs twice, nothing is left behind, and the owner is answered.
// Ends with exit code 1 when one is broken. How fast the owner is answered is a figure with a verdict of
// its own: on a machine that others use it measures them, too.
import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { clockJumps } from './attack/clock-jumps.mjs';
import { halfClosed, pipelining, slowReaders, strangers } from './attack/connections.mjs';
import { crowdedExporter, crowdedWebhook } from './attack/crowds.mjs';
import { estimatedProgram } from './attack/estimated-program.mjs';
import { forkBombs } from './attack/fork-bombs.mjs';
import { fullDisk } from './attack/full-disk.mjs';
import { killDaemon, killHelpers, killJob, killSupervisor } from './attack/kills.mjs';
import { lostLog } from './attack/lost-log.mjs';
import { oddFiles } from './attack/odd-files.mjs';
import { secondUser } from './attack/second-user.mjs';
import { Findings } from './attack/support/findings.mjs';
import { Owner } from './attack/support/owner.mjs';
import { closeAllPlaces, Place } from './attack/support/place.mjs';
import { draws } from './attack/support/random.mjs';
import { markdownOf, textOf } from './attack/support/table.mjs';
import { twoDaemons } from './attack/two-daemons.mjs';

const attacks = [
  killDaemon,
  killSupervisor,
  killJob,
  killHelpers,
  twoDaemons,
  lostLog,
  pipelining,
  slowReaders,
  halfClosed,
  strangers,
  forkBombs,
  oddFiles,
  fullDisk,
  clockJumps,
  secondUser,
  crowdedExporter,
  crowdedWebhook,
  estimatedProgram,
];

const { values } = parseArgs({
  options: {
    only: { type: 'string' },
    times: { type: 'string' },
    small: { type: 'boolean', default: false },
    seed: { type: 'string', default: '1' },
    output: { type: 'string' },
    verbose: { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
  },
});

for (const [reason, code] of [
  ['SIGINT', 130],
  ['SIGTERM', 143],
  ['uncaughtException', 70],
]) {
  process.once(reason, (what) => {
    console.error(`plimsoll attack: ${what.stack ?? 'interrupted'}; ending what was started.`);
    void endWith(code);
  });
}

const chosen = chosenAttacks(values.only);
const rows = [];
for (const attack of chosen) {
  const row = await perform(attack);
  rows.push(row);
  if (!values.json) console.log(textOf([row], rows.length === 1));
}
if (values.json) console.log(JSON.stringify({ seed: Number(values.seed), rows }, undefined, 2));
if (values.output !== undefined)
  writeFileSync(values.output, markdownOf(rows, process.argv.slice(2)));
process.exitCode = rows.some(({ broken }) => broken.length > 0) ? 1 : 0;

async function endWith(code) {
  await closeAllPlaces();
  process.exit(code);
}

function chosenAttacks(only) {
  if (only === undefined) return attacks;
  const names = only.split(',');
  const unknown = names.filter((name) => attacks.every((attack) => attack.name !== name));
  if (unknown.length > 0) {
    console.error(
      `There is no attack ${unknown.join(', ')}. There are ${attacks.map(({ name }) => name).join(', ')}.`,
    );
    process.exit(2);
  }
  return attacks.filter(({ name }) => names.includes(name));
}

async function perform({ name, title, times: usual, attack }) {
  const times = Number(values.times ?? (values.small ? usual.small : usual.full));
  const findings = new Findings();
  const owner = new Owner();
  const place = new Place();
  const from = performance.now();
  try {
    const print = (text) => values.verbose && console.error(`${name}: ${text}`);
    await attack({ place, times, random: draws(Number(values.seed)), findings, owner, print });
  } catch (error) {
    findings.wrong.push(`the attack itself failed: ${error.stack}`);
  }
  const answers = await owner.close();
  await place.close();
  if (answers.unanswered > 0) {
    findings.wrong.push(
      `${answers.unanswered} requests of the owner were not answered (${answers.faults.join(', ')})`,
    );
  }
  const { lost, doubled, left, wrong, notes, all: broken } = findings;
  const seconds = (performance.now() - from) / 1000;
  return { name, title, times, seconds, lost, doubled, left, wrong, notes, answers, broken };
}
