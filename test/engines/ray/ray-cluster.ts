import { execFileSync, spawn, spawnSync } from 'node:child_process';
import {
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { rayHttp } from '../../../src/engine/ray/http.js';
import { readNodes } from '../../../src/engine/ray/nodes.js';
import { root } from '../../support/project-files.js';
import {
  freePorts,
  killAll,
  killUntilNone,
  processesOf,
  processesWith,
  seenProcesses,
  withChildren,
} from '../processes.js';

/** A real Ray on this machine, on loopback alone. */
export interface RayTestCluster {
  readonly folder: string;
  readonly address: string;
  /** SIGKILL to what answers the Jobs API; Ray starts it again. */
  killJobHead(): void;
  /** SIGKILL to the process of Ray that looks after the job whose entrypoint names this. */
  killJobSupervisor(name: string): void;
  /**
   * SIGKILL to the process that manages all jobs, or to the store of the whole cluster (GCS): the head
   * falls with it, and is started again.
   */
  killHead(part: 'manager' | 'gcs'): Promise<void>;
  /** SIGKILL to all that runs on a node. */
  killNode(name: string): void;
  startNode(name: string): Promise<void>;
  stop(): void;
}

/** Nothing here depends on speed: it only ends what hangs. */
const waitMs = 600_000;
/** `ray start` gives up after 30 s by itself. Now and then it spins instead; then it is ended. */
const startMs = 180_000;
/** A raylet whose agents are slow may end; so often it is started. */
const maxTries = 5;

interface RayAccount {
  readonly id: number;
  readonly python: RayPython;
}

/** Starts the nodes, the head first; by another account where one is named. */
export async function startRay(
  nodes: readonly TestNode[],
  account?: RayAccount,
): Promise<RayTestCluster> {
  // Sockets below it have names of a limited length.
  const folder = mkdtempSync(join(tmpdir(), 'pray-'));
  if (account !== undefined) chownSync(folder, account.id, account.id);
  const [gcsPort = 0, dashboardPort = 0, clientPort = 0] = await freePorts(3);
  const address = `http://127.0.0.1:${dashboardPort}`;
  const [head] = nodes;
  const ray = { python: account?.python ?? rayPython(), folder, account: account?.id };
  const headWords = [
    '--head',
    `--port=${gcsPort}`,
    `--dashboard-port=${dashboardPort}`,
    '--dashboard-host=127.0.0.1',
    `--ray-client-server-port=${clientPort}`,
    `--temp-dir=${folder}`,
    '--no-monitor',
  ];
  const start = async (node: TestNode) => {
    const own = node === head ? headWords : [`--address=${head?.ip}:${gcsPort}`];
    for (let tries = 0; tries < maxTries; tries++) {
      await rayStart(ray, node, [...own, ...(await agentPorts()), ...commonWords(node)]);
      if (await isAlive(address, () => rayletOf(folder, node))) return;
      // What is left of the try would keep the ports.
      if (node === head) killUntilNone(() => processesOf(join(folder, 'session_')));
      else killNode(node);
    }
    throw new Error(`Ray's ${node.name} ended ${maxTries} times`);
  };
  // One after another: two that join at once take the same names of files.
  const startAll = async () => {
    for (const node of nodes) await start(node);
  };
  const stop = () => {
    killUntilNone(() => processesOf(folder));
    rmSync(folder, { recursive: true, force: true });
  };
  const killNode = (node: TestNode) =>
    killUntilNone(() =>
      withChildren([...rayletOf(folder, node), ...processesWith(variableOf(folder, node.name))]),
    );
  const nodeNamed = (name: string) => {
    const found = nodes.find((node) => node.name === name);
    if (found === undefined) throw new Error(`no node ${name}`);
    return found;
  };
  const cluster: RayTestCluster = {
    folder,
    address,
    killJobHead() {
      killAll(processesOf(folder).filter(({ command }) => /dashboard-JobHead/.test(command)));
    },
    killJobSupervisor(name) {
      const all = seenProcesses();
      const shells = all.filter(({ command }) => command.includes(name));
      const parents = new Set(shells.map(({ parent }) => parent));
      killAll(all.filter(({ pid, command }) => parents.has(pid) && command.startsWith('ray::')));
    },
    async killHead(part) {
      const raylet = rayletOf(folder, nodeNamed('n1'));
      const found =
        part === 'gcs'
          ? processesOf(folder).filter(({ command }) => /\/gcs_server /.test(command))
          : withChildren(raylet).filter(({ command }) => /DashboardAgent/.test(command));
      if (found.length === 0) throw new Error(`no ${part} on the head`);
      killAll(found);
      // As an administrator would: the nodes of a head that is gone are of no use.
      for (const { name } of nodes) cluster.killNode(name);
      killUntilNone(() => processesOf(join(folder, 'session_')));
      await startAll();
    },
    killNode: (name) => killNode(nodeNamed(name)),
    startNode: (name) => start(nodeNamed(name)),
    stop,
  };
  try {
    await startAll();
  } catch (error) {
    stop();
    throw error;
  }
  return cluster;
}

/** Jobs tell by its end where they ran. */
function variableOf(folder: string, name: string): string {
  return `TEST_NODE=${folder}/${name}`;
}

function rayletOf(folder: string, { ip }: TestNode): ReturnType<typeof processesOf> {
  return processesOf(folder).filter(
    ({ command }) => command.includes('/raylet ') && command.includes(`=${ip} `),
  );
}

/**
 * Ends when `ray start` does. It gives up after 30 s where its processes need longer, and they go on:
 * whether the node is there is asked of Ray.
 */
function rayStart(
  ray: {
    readonly python: RayPython;
    readonly folder: string;
    readonly account: number | undefined;
  },
  node: TestNode,
  words: readonly string[],
): Promise<void> {
  const log = join(ray.folder, `start-${node.name}.log`);
  const file = openSync(log, 'w');
  const [variable = '', value = ''] = variableOf(ray.folder, node.name).split('=');
  const { program, path } = ray.python;
  const child = spawn(program, ['-m', 'ray.scripts.scripts', 'start', ...words], {
    cwd: ray.folder,
    stdio: ['ignore', file, file],
    env: {
      ...process.env,
      ...patientSettings,
      ...(path === '' ? {} : { PYTHONPATH: path }),
      HOME: ray.folder,
      [variable]: value,
    },
    ...(ray.account === undefined ? {} : { uid: ray.account, gid: ray.account }),
  });
  const telling = setInterval(() => tellPorts(ray.folder), 500);
  let isEnded = false;
  const ending = setTimeout(() => {
    isEnded = true;
    child.kill('SIGKILL');
  }, startMs);
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('exit', (code) => {
      clearInterval(telling);
      clearTimeout(ending);
      const said = readFileSync(log, 'utf8');
      if (code === 0 || isEnded || said.includes('timed out during startup')) resolve();
      else reject(new Error(`Ray's ${node.name} did not start:\n${said}`));
    });
  });
}

/** A raylet gives up after 15 s where its agents choose their ports. */
async function agentPorts(): Promise<readonly string[]> {
  const names = [
    'dashboard-agent-grpc-port',
    'dashboard-agent-listen-port',
    'runtime-env-agent-port',
    'metrics-export-port',
  ];
  const ports = await freePorts(names.length);
  return names.map((name, index) => `--${name}=${ports[index]}`);
}

/**
 * One port is told to the agent alone, and read from a file that the agent writes: on a busy machine
 * later than the raylet waits. The raylet's own words have all that the file needs.
 */
function tellPorts(folder: string): void {
  for (const { command } of seenProcesses()) {
    if (!command.includes(`/raylet --raylet_socket_name=${folder}/`)) continue;
    const [, id] = / --node_id=(\w+)/.exec(command) ?? [];
    const [, session] = / --session_dir=(\S+)/.exec(command) ?? [];
    const [, port] = /--listen-port=(\d+)/.exec(command) ?? [];
    if (id === undefined || session === undefined || port === undefined) continue;
    const file = join(session, `dashboard_agent_listen_port_${id}`);
    if (!existsSync(file)) writeFileSync(file, port);
  }
}

/** Waits until Ray lists the node of this raylet, not one of that name before it; false where the raylet has ended. */
async function isAlive(
  address: string,
  raylet: () => readonly { command: string }[],
): Promise<boolean> {
  const endMs = Date.now() + waitMs;
  const http = rayHttp(address, { environment: {} });
  while (Date.now() < endMs) {
    const running = raylet();
    const own = new Set(running.map(({ command }) => / --node_id=(\w+)/.exec(command)?.[1]));
    const nodes = await readNodes(http).catch(() => []);
    if (nodes.some(({ id }) => own.has(id))) return true;
    if (running.length === 0) return false;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  throw new Error('Ray never listed the node');
}

const rayVersion = '2.60.0';

/**
 * Ray in a virtual environment of the project's build: nothing is installed elsewhere. Answers its
 * folder; an error where it cannot be had.
 */
function rayPackages(): string {
  const folder = join(root, 'build/engines', `ray-train-${rayVersion}`);
  const stamp = join(folder, 'complete');
  if (existsSync(stamp)) return folder;
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(join(root, 'build/engines'), { recursive: true });
  const patient = ['--retries', '10', '--timeout', '120'];
  const pip = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', ...patient];
  try {
    execFileSync('python3', ['-m', 'venv', folder], { stdio: ['ignore', 'pipe', 'pipe'] });
    execFileSync(join(folder, 'bin/python'), [...pip, `ray[default,train]==${rayVersion}`], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new Error(`Ray ${rayVersion} cannot be had (python3 -m venv, pip install): ${why}`, {
      cause: error,
    });
  }
  writeFileSync(`${stamp}.tmp`, '');
  renameSync(`${stamp}.tmp`, stamp);
  return folder;
}

/** Python with Ray. */
export interface RayPython {
  readonly program: string;
  /** What it finds Ray by; empty where it does so by itself. */
  readonly path: string;
}

function rayPython(): RayPython {
  return { program: join(rayPackages(), 'bin/python'), path: '' };
}

/**
 * The same for another account; undefined where it can run none. The Python of the virtual environment
 * may lie in the home of this account: then the system's own is taken, where it can read the packages.
 */
export function rayPythonOf(account: number): RayPython | undefined {
  const own = rayPython();
  const library = join(rayPackages(), 'lib');
  const path = join(library, readdirSync(library)[0] ?? '', 'site-packages');
  return [own, { program: '/usr/bin/python3', path }].find(({ program, path: given }) => {
    const env = { ...process.env, PYTHONPATH: given, HOME: '/nowhere' };
    const as = { uid: account, gid: account, cwd: '/', env };
    return spawnSync(program, ['-c', 'import ray'], as).status === 0;
  });
}

/** One node of the cluster, with GPUs that only Ray believes in. */
export interface TestNode {
  readonly name: string;
  readonly ip: string;
  /** Of `ray start`. */
  readonly words: readonly string[];
}

/** Two kinds of GPU, told by a resource and by a label; the first is the head. */
export const threeNodes: readonly TestNode[] = [
  {
    name: 'n1',
    ip: '127.0.0.11',
    words: ['--num-gpus=2', '--resources={"accelerator_type:A100-80G": 1}'],
  },
  {
    name: 'n2',
    ip: '127.0.0.12',
    words: ['--num-gpus=2', '--resources={"accelerator_type:A100-80G": 1, "away": 9}'],
  },
  {
    name: 'n3',
    ip: '127.0.0.13',
    words: ['--num-gpus=1', '--resources={"away": 9}', '--labels=ray.io/accelerator-type=H200'],
  },
];

/** A head alone, beside the others. */
export const oneNode: TestNode = {
  name: 'n4',
  ip: '127.0.0.14',
  words: ['--num-gpus=2', '--resources={"accelerator_type:A100-80G": 1}'],
};

const mebibyte = 1024 * 1024;
/** As little as Ray takes: it holds the results of tasks, and there are none. */
const objectStoreBytes = 80 * mebibyte;
/** Of the host, as far as Ray counts it. */
const memoryBytes = 8192 * mebibyte;

/** What all nodes are started with. */
function commonWords({ name, ip, words }: TestNode): readonly string[] {
  return [
    ...words,
    `--node-name=${name}`,
    `--node-ip-address=${ip}`,
    '--num-cpus=32',
    `--memory=${memoryBytes}`,
    `--object-store-memory=${objectStoreBytes}`,
    '--include-log-monitor=false',
    '--disable-usage-stats',
  ];
}

/** Two cores start some twenty processes: none of them is given up, and what is not needed is off. */
const patientSettings: Readonly<Record<string, string>> = {
  RAY_raylet_start_wait_time_s: '600',
  RAY_DASHBOARD_STARTUP_TIMEOUT_S: '600',
  RAY_DASHBOARD_SUBPROCESS_MODULE_WAIT_READY_TIMEOUT: '600',
  RAY_agent_register_timeout_ms: '600000',
  RAY_worker_register_timeout_seconds: '600',
  RAY_JOB_START_TIMEOUT_SECONDS: '3600',
  RAY_USAGE_STATS_ENABLED: '0',
  RAY_enable_metrics_collection: '0',
  RAY_enable_worker_prestart: '0',
  RAY_prestart_worker_first_driver: '0',
};
