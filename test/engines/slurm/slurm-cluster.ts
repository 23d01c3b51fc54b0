import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  debianPackages,
  freePorts,
  killAll,
  killUntilNone,
  processesWith,
  seenProcesses,
} from '../processes.js';

/** One node of the cluster, as slurm.conf describes it. */
interface TestNode {
  readonly name: string;
  readonly gres: string;
}

/** Two kinds of GPU, one of them shared out in shards of 1 GiB, and a node without any. */
const nodes: readonly TestNode[] = [
  { name: 'n1', gres: 'Gres=gpu:a100-80gb:2,shard:160' },
  { name: 'n2', gres: 'Gres=gpu:a100-80gb:2,shard:160' },
  { name: 'n3', gres: 'Gres=gpu:h200:2' },
  { name: 'n4', gres: '' },
];

export const shardsPerGpu = 80;

/** A real Slurm on this machine, on loopback alone, with GPUs that only Slurm believes in. */
export interface TestCluster {
  readonly folder: string;
  /** What makes Slurm's commands speak to this cluster. */
  readonly environment: Readonly<Record<string, string>>;
  run(command: string, words: readonly string[]): string;
  /** SIGKILL, and a new start. */
  restartController(): void;
  restartNode(name: string): void;
  /** As an administrator does: Slurm drains a node that was asked to launch a job that it knows. */
  resumeNodes(): void;
  /** SIGKILL to the node's daemon and to all that runs there. */
  killNode(name: string): void;
  stop(): void;
}

export async function startCluster(): Promise<TestCluster> {
  if (process.getuid?.() !== 0) throw new Error('The cluster needs root: nodes make device files.');
  const packages = slurmPackages();
  const folder = mkdtempSync(join(tmpdir(), 'plimsoll-slurm-'));
  chmodSync(folder, 0o755);
  const architecture = readdirSync(join(packages, 'usr/lib')).find((name) =>
    name.endsWith('-linux-gnu'),
  );
  const library = join(packages, 'usr/lib', architecture ?? '');
  const conf = join(folder, 'slurm.conf');
  const environment = {
    LD_LIBRARY_PATH: `${library}:${join(library, 'slurm-wlm')}`,
    SLURM_CONF: conf,
    PATH: `${join(packages, 'usr/bin')}:${process.env['PATH'] ?? ''}`,
  };
  const env = { ...process.env, ...environment };
  for (const part of ['state', 'log', 'sbin', 'munge']) mkdirSync(join(folder, part));
  // Under the names that Debian gives them they find no GPUs.
  for (const name of ['slurmctld', 'slurmd', 'slurmstepd']) {
    symlinkSync(join(packages, 'usr/sbin', `${name}-wlm`), join(folder, 'sbin', name));
  }
  for (const gpu of [0, 1])
    execFileSync('mknod', ['-m', '666', join(folder, `gpu${gpu}`), 'c', '1', '3']);
  writeFileSync(join(folder, 'munge.key'), randomBytes(1024), { mode: 0o600 });
  const ports = await freePorts(nodes.length + 1);
  writeFileSync(conf, slurmConf(folder, join(library, 'slurm-wlm'), ports));
  writeFileSync(join(folder, 'gres.conf'), gresConf(folder));

  const run = (command: string, words: readonly string[]) =>
    execFileSync(command, words, { env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
  const daemon = (name: string, words: readonly string[]) =>
    execFileSync(join(folder, 'sbin', name), [...words, '-f', conf], { env, stdio: 'ignore' });
  const startController = () => daemon('slurmctld', []);
  const startNode = (name: string) =>
    daemon('slurmd', ['-N', name, '-d', join(folder, 'sbin/slurmstepd')]);
  const kill = (file: string) => killFrom(folder, file);

  execFileSync(
    join(packages, 'usr/sbin/munged'),
    [
      `--key-file=${join(folder, 'munge.key')}`,
      `--socket=${join(folder, 'munge/socket')}`,
      `--pid-file=${join(folder, 'munge/pid')}`,
      `--log-file=${join(folder, 'munge/log')}`,
      `--seed-file=${join(folder, 'munge/seed')}`,
      '--force',
    ],
    { env, stdio: 'ignore' },
  );
  startController();
  for (const { name } of nodes) startNode(name);
  const cluster: TestCluster = {
    folder,
    environment,
    run,
    restartController() {
      kill('slurmctld.pid');
      startController();
    },
    restartNode(name) {
      kill(`slurmd-${name}.pid`);
      startNode(name);
    },
    resumeNodes() {
      for (const { name } of nodes) {
        const words = ['update', `NodeName=${name}`, 'State=RESUME'];
        // Fails where the node takes jobs.
        spawn('scontrol', words, { env, stdio: 'ignore' }).on('error', () => {});
      }
    },
    killNode(name) {
      kill(`slurmd-${name}.pid`);
      killWith(`SLURMD_NODENAME=${name}`);
    },
    stop() {
      // One that was killed does not answer, and all that runs is ended below.
      spawnSync('scancel', ['--user=root', '--user=nobody'], { env, timeout: 30_000 });
      kill('slurmctld.pid');
      for (const { name } of nodes) kill(`slurmd-${name}.pid`);
      killWith(`SLURM_CONF=${conf}`);
      spawnSync('pkill', ['-KILL', '-f', folder]);
      kill('munge/pid');
      rmSync(folder, { recursive: true, force: true });
    },
  };
  waitUntilIdle(cluster);
  return cluster;
}

function waitUntilIdle(cluster: TestCluster): void {
  for (let tries = 0; tries < 300; tries++) {
    try {
      const idle = cluster.run('sinfo', ['--noheader', '--Node', '--states=idle', '--format=%N']);
      if (new Set(idle.trim().split('\n')).size === nodes.length) return;
    } catch {
      // The controller is on its way.
    }
    spawnSync('sleep', ['1']);
  }
  const log = join(cluster.folder, 'log/slurmctld.log');
  throw new Error(
    `The nodes never became idle:\n${existsSync(log) ? readFileSync(log, 'utf8') : ''}`,
  );
}

/**
 * Ends what has this in its environment, at once: a script whose supervisor is dead starts the next one. Its
 * step daemons first, which would report its end.
 */
function killWith(variable: string): void {
  killUntilNone(() => {
    const own = processesWith(variable);
    const parents = new Set(own.map(({ parent }) => parent));
    const steps = seenProcesses().filter(({ pid }) => parents.has(pid) && isStep(pid));
    return [...steps, ...own];
  });
}

function isStep(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/comm`, 'utf8').startsWith('slurmstepd');
  } catch {
    return false;
  }
}

/** The daemon of this file of its pid. The pid of one that was killed may be another's by now. */
function killFrom(folder: string, file: string): void {
  const pidFile = join(folder, file);
  const pid = existsSync(pidFile) ? Number(readFileSync(pidFile, 'utf8')) : 0;
  const own = seenProcesses().filter((one) => one.pid === pid && one.command.includes(folder));
  if (own.length === 0) return;
  killAll(own);
  for (let tries = 0; tries < 600 && isAlive(pid); tries++) spawnSync('sleep', ['0.1']);
}

/** One that nobody waits for stays in the table when it is dead. */
function isAlive(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}

function slurmConf(folder: string, plugins: string, ports: readonly number[]): string {
  const lines = nodes.map(
    ({ name, gres }, index) =>
      `NodeName=${name} NodeHostname=${name} NodeAddr=127.0.0.1 Port=${ports[index + 1]} CPUs=32 RealMemory=512000 ${gres}`,
  );
  return `ClusterName=test
SlurmctldHost=${hostname().split('.')[0]}(127.0.0.1)
SlurmctldPort=${ports[0]}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=${folder}/munge/socket,cred_expire=20
PluginDir=${plugins}
StateSaveLocation=${folder}/state
SlurmdSpoolDir=${folder}/spool-%n
SlurmctldPidFile=${folder}/slurmctld.pid
SlurmdPidFile=${folder}/slurmd-%n.pid
SlurmctldLogFile=${folder}/log/slurmctld.log
SlurmdLogFile=${folder}/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=100
GresTypes=gpu,shard
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=none
SchedulerParameters=sched_interval=1,batch_sched_delay=0,bf_interval=1
MinJobAge=600
MessageTimeout=60
SlurmdTimeout=30
KillWait=60
${lines.join('\n')}
PartitionName=gpu Nodes=n1,n2,n3 Default=YES MaxTime=INFINITE State=UP
PartitionName=cpu Nodes=n4 MaxTime=INFINITE State=UP
`;
}

function gresConf(folder: string): string {
  return `NodeName=n[1-2] Name=gpu Type=a100-80gb File=${folder}/gpu[0-1]
NodeName=n[1-2] Name=shard Count=160
NodeName=n3 Name=gpu Type=h200 File=${folder}/gpu[0-1]
`;
}

/** Debian's Slurm; answers the folder that it was unpacked into. */
function slurmPackages(): string {
  return debianPackages({
    folder: 'slurm',
    wanted: [
      'slurmctld',
      'slurmd',
      'slurm-client',
      'slurm-wlm-basic-plugins',
      'munge',
      'libmunge2',
    ],
    proof: 'usr/bin/sbatch',
  });
}
