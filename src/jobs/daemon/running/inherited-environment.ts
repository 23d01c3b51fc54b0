/** Private to the user who runs the daemon; or of a run that it is itself part of. */
const withheld: ReadonlySet<string> = new Set([
  'PLIMSOLL_TOKEN',
  'PLIMSOLL_PROMETHEUS_AUTH',
  'PLIMSOLL_RUN_ID',
  'PLIMSOLL_BRIDGE',
  'PLIMSOLL_RUN_DIR',
  'PLIMSOLL_MEMORY_BYTES',
  'PLIMSOLL_AUTO',
]);

/**
 * What of the daemon's own environment jobs and their supervisors may see: all but its secrets.
 *
 * @example
 * environmentForJobs({ PATH: '/bin', PLIMSOLL_TOKEN: 's3cret' }); // { PATH: '/bin' }
 */
export function environmentForJobs(
  own: Readonly<Record<string, string | undefined>>,
): Readonly<Record<string, string>> {
  const kept: Record<string, string> = {};
  for (const [name, value] of Object.entries(own)) {
    if (value !== undefined && !withheld.has(name)) kept[name] = value;
  }
  return kept;
}
