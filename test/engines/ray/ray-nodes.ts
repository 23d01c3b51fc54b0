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
export function commonWords({ name, ip, words }: TestNode): readonly string[] {
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
export const patientSettings: Readonly<Record<string, string>> = {
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
