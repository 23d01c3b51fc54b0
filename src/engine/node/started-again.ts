/** After so many ends of our command that it did not announce, something else is wrong. */
const maxTries = 20;

/** Not 1, with which Slurm says that a node refused to start a job. */
const gaveUp = 70;

/**
 * Lines of a shell script that start our command on a node; where that is killed, they start it
 * again, and the program that still runs is taken up.
 */
export function startedAgain(command: string, endedFile: string): string {
  return `tries=0
while [ $tries -lt ${maxTries} ]; do
  ${command}
  code=$?
  # It writes this file when it is done; without it, it was killed and is started again.
  if [ -e ${endedFile} ]; then exit $code; fi
  tries=$((tries + 1))
done
exit ${gaveUp}
`;
}
