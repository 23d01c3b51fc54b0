import { resolve } from 'node:path';
import type { Command } from 'commander';
import { Failure } from '../../failure.js';
import { authorizationOf, type PrometheusAddress, prometheusUrl } from '../../fleet/prometheus.js';
import type { CliIo } from '../io.js';
import { readToken } from './serve-token.js';

export interface PrometheusArguments {
  readonly prometheus?: string;
  readonly prometheusAuthFile?: string;
}

export function addPrometheusOptions(command: Command): Command {
  return command
    .option('--prometheus <url>', 'Prometheus that scrapes the nodes (PLIMSOLL_PROMETHEUS)')
    .option(
      '--prometheus-auth-file <file>',
      'file with "bearer TOKEN" or "basic USER:PASSWORD" for it (PLIMSOLL_PROMETHEUS_AUTH)',
    );
}

/** The Prometheus that was named; undefined where none was. */
export function prometheusOf(
  { prometheus, prometheusAuthFile: file }: PrometheusArguments,
  { environment, folder }: Pick<CliIo, 'environment' | 'folder'>,
): PrometheusAddress | undefined {
  const text = prometheus ?? environment['PLIMSOLL_PROMETHEUS'] ?? '';
  if (text === '') {
    if (file !== undefined) throw withoutAddress();
    return undefined;
  }
  const url = prometheusUrl(
    text,
    prometheus === undefined ? 'PLIMSOLL_PROMETHEUS' : '--prometheus',
  );
  if (file !== undefined) {
    return { url, authorization: authorizationOf(readToken(resolve(folder, file), file), file) };
  }
  const variable = 'PLIMSOLL_PROMETHEUS_AUTH';
  const secret = environment[variable] ?? '';
  return secret === '' ? { url } : { url, authorization: authorizationOf(secret, variable) };
}

function withoutAddress(): Failure {
  return new Failure({
    kind: 'input',
    code: 'bad-option',
    fact: '--prometheus-auth-file is given without --prometheus.',
    next: 'Add --prometheus http://prometheus:9090.',
  });
}
