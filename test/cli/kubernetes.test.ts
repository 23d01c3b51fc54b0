import { chmodSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { get } from 'node:https';
import { delimiter, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { makeCertificate } from '../support/certificate.js';
import { kubernetesErrors } from '../support/kubernetes-schema.js';
import { type Running, useCommand } from './command.js';

const command = useCommand();

/**
 * Stands in for kubectl, since there is no cluster: a real process that keeps jobs in a file, gives each
 * a pod that prints what its container would run, and ends those that are given a deadline.
 */
const standIn = `#!${process.execPath}
import fs from 'node:fs';
const file = process.env.OBJECTS;
const objects = fs.existsSync(file) ? JSON.parse(fs.readFileSync(file)) : [];
const words = process.argv.slice(2);
fs.appendFileSync(file + '.calls', words.join(' ') + '\\n');
const done = (status) => { fs.writeFileSync(file, JSON.stringify(objects)); process.exit(status); };
if (words[0] === 'create') {
  const job = JSON.parse(fs.readFileSync(0));
  job.metadata.creationTimestamp = '2026-11-16T10:00:00Z';
  const { metadata, spec } = job.spec.template;
  const pod = { kind: 'Pod', metadata: { ...metadata, name: job.metadata.name + '-x' }, spec: { ...spec, nodeName: 'n1' },
    status: { phase: 'Running', containerStatuses: [{ state: { running: {} } }] } };
  objects.push(job, pod);
  done(0);
} else if (words[0] === 'get') {
  const [key, value] = words[3].split('=');
  const items = objects.filter(({ metadata }) => metadata.labels[key] === value);
  process.stdout.write(JSON.stringify({ kind: 'List', items }));
} else if (words[0] === 'logs') {
  const pod = objects.find(({ metadata }) => metadata.name === words[1]);
  const lines = pod.spec.containers[0].command.join(' ').split('|');
  const stamped = lines.map((line, at) => '2026-11-16T10:00:0' + (at >> 1) + '.' + String(at).padStart(9, '0') + 'Z ' + line);
  const since = words.find((word) => word.startsWith('--since-time='))?.slice(13, 32) ?? '';
  const shown = words.includes('--timestamps') ? stamped.filter((line) => line >= since) : lines;
  const text = shown.map((line) => line + '\\n').join('');
  // A connection that is followed breaks within a line; it stands when it is opened again.
  if (words.includes('--follow') && since === '') {
    fs.writeSync(1, text.slice(0, -3));
    console.error('error: unexpected EOF');
    process.exit(1);
  }
  fs.writeSync(1, text);
  if (words.includes('--follow')) {
    pod.status = { phase: 'Succeeded', containerStatuses: [{ state: { terminated: { exitCode: 0 } } }] };
    const job = objects.find(({ kind, metadata }) => kind === 'Job' && words[1] === metadata.name + '-x');
    job.status = { conditions: [{ type: 'Complete', status: 'True' }] };
    done(0);
  }
} else if (words[0] === 'patch') {
  const job = objects.find(({ kind, metadata }) => kind === 'Job' && metadata.name === words[2]);
  const { metadata, spec } = JSON.parse(words[words.indexOf('-p') + 1]);
  Object.assign(job.metadata.annotations, metadata.annotations);
  Object.assign(job.spec, spec);
  if (spec.activeDeadlineSeconds) job.status = { conditions: [{ type: 'Failed', status: 'True', reason: 'DeadlineExceeded' }] };
  done(0);
} else {
  console.error('error: unknown command');
  process.exit(1);
}
`;

function withKubectl() {
  // Of its own, so that no test finds the jobs of another.
  const folder = mkdtempSync(join(command.folder(), 'kubectl-'));
  const program = join(folder, 'kubectl');
  writeFileSync(program, standIn);
  chmodSync(program, 0o755);
  const environment = {
    PATH: [folder, process.env['PATH']].join(delimiter),
    OBJECTS: join(folder, 'objects.json'),
  };
  const engine = ['--engine', 'kubernetes'];
  const run = ([name = '', ...words]: readonly string[]) =>
    command.run([name, ...engine, ...words], { environment });
  return { run, calls: () => readFileSync(`${environment.OBJECTS}.calls`, 'utf8').split('\n') };
}

describe('plimsoll with a kubectl (a stand-in)', () => {
  it('submits, lists, shows the log, and cancels, in the namespace that was named', async () => {
    const { run, calls } = withKubectl();
    const job = ['--container-image', 'pytorch:1', '--memory', '20GiB', '--gpu-sharing', 'hami'];
    const words = [...job, '--namespace', 'ml', '--name', 'bert'];
    const preview = await run(['submit', '--dry-run', ...words, '--', 'python', 'train.py']);
    expect(kubernetesErrors(JSON.parse(preview.stdout))).toEqual([]);
    const sent = await run(['submit', '--json', ...words, '--', 'python', 'train.py']);
    expect(sent.stderr).toBe('');
    const { id } = JSON.parse(sent.stdout);
    expect(id).toMatch(/^bert-[0-9a-f]{6}$/);
    expect(JSON.parse((await run(['jobs', '--namespace', 'ml', '--json'])).stdout)).toMatchObject({
      engine: 'kubernetes',
      jobs: [{ id, name: 'bert', state: 'running', nodes: 'n1', needBytes: 20 * 2 ** 30 }],
    });
    const log = await run(['logs', id]);
    expect(log.stdout).toMatch(/^sh -c command -v plimsoll .*exec "\$\$@" sh python train.py\n$/);
    expect((await run(['cancel', id])).stdout).toBe(`Job ${id} was asked to end.\n`);
    expect((await run(['jobs', id])).stdout).toMatch(/is cancelled\./);
    const again = await run(['cancel', id]);
    expect([again.exitCode, again.stderr]).toEqual([1, expect.stringContaining('job-has-ended')]);
    const none = await run(['logs', 'other']);
    expect([none.exitCode, none.stderr]).toEqual([2, expect.stringContaining('unknown-job')]);
    expect(calls().slice(0, 2)).toEqual([
      'create -f -',
      'get jobs,pods -l app.kubernetes.io/managed-by=plimsoll -o json --namespace ml',
    ]);
  });
});

describe('plimsoll logs --follow with a kubectl (a stand-in)', () => {
  it('follows to the end of the job, over a connection that breaks, and reads nothing twice', async () => {
    const { run, calls } = withKubectl();
    const words = ['--container-image', 'pytorch:1', '--supervisor', 'never', '--memory', '1GiB'];
    const lines = ['one', 'two', 'three', 'four', 'five'];
    const sent = await run(['submit', '--json', ...words, '--', lines.join('|')]);
    expect(sent.stderr).toBe('');
    const { id } = JSON.parse(sent.stdout);
    const followed = await run(['logs', '--follow', id]);
    expect(followed.stdout).toBe(`${lines.join('\n')}\n`);
    expect([followed.exitCode, followed.stderr]).toEqual([0, expect.stringContaining('succeeded')]);
    expect(calls().filter((call) => call.startsWith(`logs ${id}-x `))).toEqual([
      `logs ${id}-x -c job --timestamps --follow`,
      `logs ${id}-x -c job --timestamps --follow --since-time=2026-11-16T10:00:02.000000004Z`,
      `logs ${id}-x -c job --timestamps --since-time=2026-11-16T10:00:02.000000004Z`,
    ]);
  });
});

describe('plimsoll serve --webhook', () => {
  it('listens with TLS on loopback, keeps no files, and ends with 0', async () => {
    const { cert, key } = makeCertificate(command.folder());
    const argv = ['serve', '--webhook', '--tls-cert', cert, '--tls-key', key, '--port', '0'];
    let asked: Promise<number | undefined> | undefined;
    const { exitCode, stderr } = await command.run([...argv, '--json', '--debug'], {
      environment: { PLIMSOLL_HOME: '/nowhere' },
      onOutput({ stdout }, running: Running) {
        if (asked !== undefined || !stdout.endsWith('\n')) return;
        const url = new URL('/healthz', JSON.parse(stdout).url);
        asked = new Promise<number | undefined>((resolve, reject) => {
          get(url, { ca: readFileSync(cert), agent: false }, (answer) => {
            answer.resume();
            resolve(answer.statusCode);
          }).on('error', reject);
        }).finally(() => running.kill('SIGTERM'));
      },
    });
    expect([await asked, exitCode, stderr]).toEqual([200, 0, '']);
  });

  it.each([
    [['--webhook'], 'no-certificate'],
    [['--webhook', '--simulate', 'steady'], 'bad-usage'],
    [['--webhook', '--no-token'], 'bad-usage'],
    [['--tls-cert', 'x'], 'bad-usage'],
  ])('%j is refused: %s', async (words, code) => {
    const { exitCode, stderr } = await command.run(['serve', ...words]);
    expect([exitCode, stderr]).toEqual([2, expect.stringContaining(code)]);
  });
});
