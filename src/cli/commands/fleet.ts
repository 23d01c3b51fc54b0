import { Failure } from '../../failure.js';
import { askFleet } from '../../fleet/ask-fleet.js';
import { openPrometheus } from '../../fleet/prometheus.js';
import { prometheusLimits } from '../../fleet/read-answer.js';
import { isAtRisk } from '../../fleet/risk-order.js';
import { findTrainings } from '../../fleet/trainings.js';
import type { Fleet, FleetTraining } from '../../fleet/types.js';
import { fleetText, trainingText } from '../../report/text/fleet-text.js';
import { systemClock } from '../../time/clock.js';
import {
  type CliIo,
  type CommandContext,
  type CommandModule,
  printJson,
  textStyle,
} from '../io.js';
import { badArgument, durationArgument } from '../options/arguments.js';
import {
  addPrometheusOptions,
  type PrometheusArguments,
  prometheusOf,
} from '../options/watch-options.js';
import { showBusy } from '../screen/progress.js';
import { stopOnSignals } from '../stop.js';
import { withStop } from '../watching.js';

interface FleetArguments extends PrometheusArguments {
  readonly job?: string;
  readonly window: number;
  readonly timeout: number;
  readonly check?: boolean;
  readonly all?: boolean;
  readonly json?: boolean;
}

const usualWindowSeconds = 3600;

export const fleetCommand: CommandModule = {
  define(command, context) {
    addPrometheusOptions(command)
      .option('--job <id>', 'a distributed training, by id or name: its ranks on all nodes')
      .option(
        '--window <duration>',
        'how far back the history and silent nodes go, from 1m to 31d',
        boundedArgument('--window', 60, 31 * 24 * 3600, 'from 1m to 31d, such as 6h'),
        usualWindowSeconds,
      )
      .option(
        '--timeout <duration>',
        'how long one query may take, from 1s to 1h',
        boundedArgument('--timeout', 1, 3600, 'from 1s to 1h, such as 2m'),
        prometheusLimits.seconds,
      )
      .option('--check', 'exit code 1 if a device is at risk, leaks or is silent')
      .option('--all', 'every device, leak, job and training')
      .option('--json', 'print one JSON document on stdout')
      .addHelpText(
        'after',
        `
Shows all nodes that run "plimsoll exporter" or "plimsoll serve" and are scraped by a Prometheus.

Examples:
  plimsoll fleet --prometheus http://prometheus:9090
  plimsoll fleet --prometheus http://prometheus:9090 --job 4711
  plimsoll fleet --prometheus https://metrics.example.org --prometheus-auth-file secret.txt --json`,
      )
      .action(context.action((given: FleetArguments) => fleet(given, context)));
  },
};

async function fleet(given: FleetArguments, { io }: CommandContext): Promise<number> {
  const address = prometheusOf(given, io);
  if (address === undefined) throw noAddress();
  return withStop(stopOnSignals([io.stdout.closed]), async (stop) => {
    const found = await showBusy(io, `Asking ${address.url}`, () =>
      askFleet(openPrometheus(address, given.timeout), {
        nowMs: systemClock.epochMs(),
        windowSeconds: given.window,
        signal: stop.signal,
      }),
    );
    if (found.nodes.length === 0) throw noNodes(address.url);
    return given.job === undefined
      ? showFleet(found, given, io)
      : showTraining(trainingOf(found, given.job), given, io);
  });
}

function showFleet(found: Fleet, { json, all, check }: FleetArguments, io: CliIo): number {
  if (json) printJson(io, found);
  else {
    const options = { columns: io.stdout.columns(), style: textStyle(io), all };
    io.stdout.write(`${fleetText(found, options)}\n`);
  }
  const { atRisk, leaking, silentNodes } = found.totals;
  return check && atRisk + leaking + silentNodes > 0 ? 1 : 0;
}

function showTraining(training: FleetTraining, given: FleetArguments, io: CliIo): number {
  if (given.json) printJson(io, training);
  else {
    const options = { columns: io.stdout.columns(), style: textStyle(io) };
    io.stdout.write(`${trainingText(training, options)}\n`);
  }
  const isBad = training.ranks.some(isAtRisk) || training.warnings.length > 0;
  return given.check && isBad ? 1 : 0;
}

function trainingOf({ trainings }: Fleet, wanted: string): FleetTraining {
  const [training, ...others] = findTrainings(trainings, wanted);
  if (training !== undefined && others.length === 0) return training;
  const ids = [training, ...others].flatMap((one) => (one === undefined ? [] : [one.id]));
  const known = trainings.slice(0, 10).map(({ id }) => id);
  throw new Failure({
    kind: 'input',
    code: 'unknown-job',
    fact:
      ids.length === 0
        ? `No distributed training has the id or the name "${wanted.slice(0, 80)}".`
        : `${ids.length} trainings have the name "${wanted.slice(0, 80)}": ${ids.slice(0, 10).join(', ')}.`,
    next:
      ids.length > 0
        ? 'Give one of the ids.'
        : known.length > 0
          ? `There are: ${known.join(', ')}.`
          : 'No exporter sees the rank of a process: run it as root, or as the user of the training.',
  });
}

function boundedArgument(option: string, least: number, most: number, range: string) {
  const read = durationArgument(option);
  return (text: string): number => {
    const seconds = read(text);
    if (seconds >= least && seconds <= most) return seconds;
    throw badArgument(option, text, `It takes a duration ${range}.`);
  };
}

function noAddress(): Failure {
  return new Failure({
    kind: 'input',
    code: 'missing-argument',
    fact: 'No Prometheus is named.',
    next: 'Add --prometheus http://prometheus:9090, or set PLIMSOLL_PROMETHEUS.',
  });
}

function noNodes(url: string): Failure {
  return new Failure({
    kind: 'missing',
    code: 'no-nodes',
    fact: `Prometheus at ${url} knows no node with metrics of Plimsoll.`,
    next: 'Run "plimsoll exporter" on the nodes and scrape them.',
  });
}
