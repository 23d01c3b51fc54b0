/**
 * The two small shells that stay with a job, so that it outlives us. They cost under a megabyte
 * each and do nothing while we are there.
 */

/** By its path: the PATH is the program's, and may name no folder that has it. */
export const shell = '/bin/sh';
/** The few programs that these shells call are found behind whatever the PATH names. */
const findPrograms = 'PATH=${PATH:+$PATH:}/usr/bin:/bin';

/** The exit code of a keeper that began nothing: another has its place, or there is no room for its pid. */
export const keeperHasNoPlace = 125;

/**
 * The keeper waits for the job and writes down its exit code: only a parent can. It
 * takes signals only to forget them, for those that reach the whole group are the job's to answer.
 * It takes its place only if that is free: a supervisor that believes an attempt was never launched
 * may launch it again, and must not run it twice.
 * The room for the exit code was taken before, so that a disk that runs full meanwhile cannot hide how
 * the job ended. Without room for its pid it does not begin.
 * A shell says "Killed" of a child that was; that is noise, so its own stderr goes nowhere.
 * $1 file for the exit code, $2 file for its own pid, then the words of the starter.
 */
export const keeperScript = `trap : INT QUIT TERM HUP USR1 USR2
code=$1; own=$2; shift 2
exec 9>&2 2>/dev/null
set -C
printf '%s\\n' "$$" > "$own" || exit ${keeperHasNoPlace}
set +C
( exec 2>&9 9>&-; exec ${shell} -c "$@" )
ended=$?
${findPrograms}
printf '%03d\\n' "$ended" 1<> "$code.new" && mv "$code.new" "$code"
exit "$ended"`;

/**
 * The starter goes into the limit, tells the pid that the job will have, and becomes the job.
 * $1 file for the pid, $2 cgroup.procs or nothing, $3 KiB of address space or nothing, then the
 * command. Descriptor 3 hears the pid, too: from a shell of its own, since a supervisor that was killed
 * meanwhile has closed the other end, and SIGPIPE must not end the job before it begins.
 */
export const starterScript = `pid=$1; group=$2; space=$3; shift 3
[ -z "$group" ] || printf '%s\\n' "$$" > "$group" || exit 126
[ -z "$space" ] || ulimit -v "$space" || exit 126
printf '%s\\n' "$$" > "$pid"
( printf '%s\\n' "$$" >&3 ) 2>/dev/null
exec 3>&-
exec "$@"`;

/**
 * The drainer holds the reading end of the job's output. While we live it waits for a line from us;
 * when there is none and the line is cut, we were killed: then it takes over, so that the job finds
 * an open pipe and never a full one.
 * $1 the file that keeps what is printed from then on. Descriptor 3 is the line, 4 the output, 5 where
 * it goes.
 */
export const drainerScript = `trap "" INT QUIT TERM HUP USR1 USR2 TSTP PIPE
read -r line <&3
[ -z "$line" ] || exit 0
exec 3<&-
${findPrograms}
exec tee -a "$1" <&4 >&5`;

/** Waits for input that never comes, ends when there can be none, and takes every signal as it is. */
export const waitScript = `${findPrograms}; exec cat`;
