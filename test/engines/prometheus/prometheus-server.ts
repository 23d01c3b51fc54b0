import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { debianPackages, freePorts } from '../processes.js';

/** One that Prometheus scrapes. */
export interface ScrapeTarget {
  /** `127.0.0.1:9847` */
  readonly address: string;
  readonly path?: string;
  /** What Prometheus calls it; its address where this is left out. */
  readonly instance?: string;
}

export interface TestPrometheus {
  readonly url: string;
  stop(): Promise<void>;
}

/** 1,000 targets on one busy machine: 33 scrapes a second. */
const scrapeSeconds = 30;

/** The folder that has Debian's Prometheus and promtool. */
export function prometheusPackages(): string {
  return debianPackages({
    folder: 'prometheus',
    wanted: ['prometheus'],
    proof: 'usr/bin/prometheus',
  });
}

/** A real Prometheus on loopback, with its data in a folder of its own. */
export async function startPrometheus(targets: readonly ScrapeTarget[]): Promise<TestPrometheus> {
  const packages = prometheusPackages();
  const folder = mkdtempSync(join(tmpdir(), 'plimsoll-prometheus-'));
  const config = join(folder, 'prometheus.json');
  // YAML takes JSON.
  writeFileSync(config, JSON.stringify(configuration(targets)));
  const [port] = await freePorts(1);
  const child = spawn(
    join(packages, 'usr/bin/prometheus'),
    [
      `--config.file=${config}`,
      `--storage.tsdb.path=${join(folder, 'data')}`,
      `--web.listen-address=127.0.0.1:${port}`,
      '--query.timeout=600s',
    ],
    { stdio: ['ignore', 'ignore', 'pipe'] },
  );
  let log = '';
  child.stderr.on('data', (chunk) => (log = `${log}${chunk}`.slice(-20_000)));
  const url = `http://127.0.0.1:${port}`;
  try {
    await untilReady(url, child);
  } catch (error) {
    child.kill('SIGKILL');
    throw new Error(`Prometheus did not start:\n${log}`, { cause: error });
  }
  return {
    url,
    async stop() {
      const ended = child.exitCode === null ? once(child, 'exit') : undefined;
      child.kill('SIGKILL');
      await ended;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function configuration(targets: readonly ScrapeTarget[]): object {
  return {
    global: { scrape_interval: `${scrapeSeconds}s`, scrape_timeout: `${scrapeSeconds}s` },
    scrape_configs: [
      {
        job_name: 'plimsoll',
        static_configs: targets.map(({ address, path, instance }) => ({
          targets: [address],
          labels: {
            ...(path !== undefined && { __metrics_path__: path }),
            ...(instance !== undefined && { instance }),
          },
        })),
      },
    ],
  };
}

async function untilReady(url: string, child: ChildProcess): Promise<void> {
  for (let tries = 0; tries < 600; tries++) {
    if (child.exitCode !== null) throw new Error(`it ended with ${child.exitCode}`);
    const isReady = await fetch(`${url}/-/ready`).then(
      ({ ok }) => ok,
      () => false,
    );
    if (isReady) return;
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
  throw new Error('it never became ready');
}
