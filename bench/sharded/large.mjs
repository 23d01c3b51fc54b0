// What tracing the largest job costs: Llama-3-70B on 64 ranks, beside the bare start of the same libraries.
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { truthFolder } from '../truth.mjs';

const command = fileURLToPath(new URL('../../bin/plimsoll.js', import.meta.url));
const largeTargets = { seconds: 60, bytes: 2 * 2 ** 30 };

/** Waits for a command; tells its time, its processors' time, and the memory of its largest process. */
const measurer = `import json, resource, subprocess, sys, time
begin = time.monotonic()
end = subprocess.run(sys.argv[1:], capture_output=True, text=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
seconds = time.monotonic() - begin
print(json.dumps([end.returncode, seconds, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024, end.stdout, end.stderr[-500:]]))`;

export function largeRow(python) {
  const config = `${truthFolder('cases')}sharded-configs/llama-3-70b.json`;
  const settings =
    '--batch 1 --seq 4096 --checkpointing --gpus 64 --parallel fsdp2 --gather-precision bf16 --reduce-precision fp32 --gpu h200 --no-cache --json';
  const estimate = [process.execPath, command, 'estimate', config, '--python', python];
  const traced = measure(python, [...estimate, ...settings.split(' ')]);
  const start = measure(python, [python, '-c', 'import torch, transformers.modeling_utils']);
  const { peak } = JSON.parse(traced.text);
  return { ...traced, text: undefined, reservedBytes: peak.reservedBytes, start };
}

function measure(python, words) {
  const { stdout } = spawnSync(python, ['-c', measurer, ...words], { encoding: 'utf8' });
  const [code, seconds, processorSeconds, bytes, text, said] = JSON.parse(stdout);
  if (code !== 0) throw new Error(`${words.slice(0, 4).join(' ')} ended with ${code}: ${said}`);
  return { seconds, processorSeconds, bytes, text };
}

/** Processor time counts as well: on a busy machine a trace waits for others. */
export function isLargeMet({ seconds, processorSeconds, bytes }) {
  const time = Math.min(seconds, processorSeconds);
  return time <= largeTargets.seconds && bytes <= largeTargets.bytes;
}

export function largeLine(row) {
  const ratio = (row.processorSeconds / row.start.processorSeconds).toFixed(1);
  return `llama-3-70b on 64 ranks: traced in ${row.seconds.toFixed(0)} s (${row.processorSeconds.toFixed(0)} s of processors, aim 60) and ${gib(row.bytes)} (aim 2); ${ratio} times the bare start of its libraries. A rank reserves ${gib(row.reservedBytes)}.`;
}

function gib(bytes) {
  return `${(bytes / 2 ** 30).toFixed(2)} GiB`;
}
