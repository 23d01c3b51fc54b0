// The end of an attack: all work runs out, the server closes, and nothing of it may be left.
import { cgroupsOf, processesOf, readProc, strayFiles } from './leftovers.mjs';
import { patienceMs, until } from './place.mjs';

/** What supervisors and keepers get to end in after their job has. */
const settleMs = 60_000;

export async function untilIdle(server, findings, withinMs = patienceMs) {
  const isOver = async () => server.hasEnded || (await server.isIdle());
  if (await until(isOver, { everyMs: 200, withinMs })) return;
  const left = (await server.jobs()).filter(({ state }) => ['waiting', 'running'].includes(state));
  for (const { id, state, reason } of left)
    findings.lost.push(`job ${id} stays ${state} ${reason}`);
}

/** With no server, no job and no supervisor left to run. */
export async function judgeLeftovers(place, findings, isLeftAlone = () => false) {
  const isQuiet = () => processesOf(place.folder).length === 0;
  if (!(await until(isQuiet, { everyMs: 100, withinMs: settleMs }))) {
    for (const pid of processesOf(place.folder)) {
      findings.left.push(
        `process ${pid}: ${readProc(pid, 'cmdline').replaceAll('\0', ' ').slice(0, 120)}`,
      );
    }
  }
  for (const folder of cgroupsOf(place.home)) findings.left.push(`cgroup ${folder}`);
  const stray = strayFiles(place.home).filter((file) => !isLeftAlone(file));
  findings.left.push(...stray.map((file) => `file ${file}`));
}

/** Waits for the work to end, judges it, closes the server, and looks for what is left. */
export async function closeAndJudge({ server, place, work, findings, owner, mayFail }) {
  await untilIdle(server, findings);
  if (server.hasEnded) {
    const { code, signal } = await server.ended;
    findings.wrong.push(`the server died (${code ?? signal}): ${server.stderr.slice(-600)}`);
    return;
  }
  if (work !== undefined) work.judge(await server.jobs(), findings, mayFail);
  await owner.pause();
  const { code } = await server.stop();
  if (code !== 0)
    findings.wrong.push(`the server closed with exit code ${code}: ${lastLine(server)}`);
  await judgeLeftovers(place, findings);
}

export function lastLine({ stderr }) {
  return stderr.trim().split('\n').at(-1)?.slice(0, 200) ?? '';
}
