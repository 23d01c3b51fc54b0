/**
 * Variables that start with `PLIMSOLL_` and are no configuration: where things are, how to debug,
 * and what we hand to the programs we start (which may call `plimsoll` in turn).
 */
const otherVariables: ReadonlySet<string> = new Set([
  'PLIMSOLL_HOME',
  'PLIMSOLL_CONFIG',
  'PLIMSOLL_DEBUG',
  'PLIMSOLL_NODE',
  'PLIMSOLL_PYTHON',
  'PLIMSOLL_SERVER',
  'PLIMSOLL_PROMETHEUS',
  'PLIMSOLL_PROMETHEUS_AUTH',
  'PLIMSOLL_TOKEN',
  'PLIMSOLL_BATCH_SIZE',
  'PLIMSOLL_ACCUMULATION',
  'PLIMSOLL_CHECKPOINTING',
  'PLIMSOLL_PRECISION',
  'PLIMSOLL_DEVICE',
  'PLIMSOLL_ATTEMPT',
  'PLIMSOLL_OFFLOAD',
  'PLIMSOLL_TORCH_DEVICE',
  'PLIMSOLL_RUN_ID',
  'PLIMSOLL_RUN_DIR',
  'PLIMSOLL_NODE_RUN',
  'PLIMSOLL_BRIDGE',
  'PLIMSOLL_AUTO',
  'PLIMSOLL_MEMORY_BYTES',
  'PLIMSOLL_SNAPSHOT',
  'PLIMSOLL_TRAINERS',
  'PLIMSOLL_ALL_IMPORTS',
  'PLIMSOLL_PROGRESS',
  'PLIMSOLL_TEST_PYTHON',
  'PLIMSOLL_TEST_KILLS',
]);

/** Handed to the command that alerts are delivered to. */
const alertPrefix = 'PLIMSOLL_ALERT_';

export type Environment = Readonly<Record<string, string | undefined>>;

/**
 * The variables that claim to be configuration. An empty one counts as not set, as a shell script
 * that clears it would expect.
 */
export function configurationVariables(environment: Environment): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  for (const [name, text] of Object.entries(environment)) {
    if (!name.startsWith('PLIMSOLL_') || name.startsWith(alertPrefix)) continue;
    if (otherVariables.has(name) || text === undefined || text === '') continue;
    found.set(name, text);
  }
  return found;
}
