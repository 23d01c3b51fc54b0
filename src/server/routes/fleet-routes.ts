import { Failure } from '../../failure.js';
import type { Fleet } from '../../fleet/types.js';
import { fleetSchema } from '../schemas/fleet.js';
import { jsonAnswer, jsonContent, noBody, nothing } from './answers.js';
import { fleetExample } from './fleet-example.js';
import { type Operation, operation } from './operation.js';

/** Asks the Prometheus of this server. */
export type FleetSource = () => Promise<Fleet>;

export function fleetOperation(source: FleetSource | undefined): Operation {
  return operation({
    method: 'get',
    path: '/fleet',
    id: 'getFleet',
    tag: 'devices',
    summary: 'All nodes that the Prometheus of this server scrapes',
    description: 'Where the server was started with --prometheus. The answer may be 10 s old.',
    params: nothing,
    query: nothing,
    body: noBody,
    answers: { 200: jsonContent(fleetSchema, 'The fleet.', fleetExample) },
    errors: [404, 503],
    handle: async () => {
      if (source === undefined) throw noFleet();
      return jsonAnswer(await source());
    },
  });
}

function noFleet(): Failure {
  return new Failure({
    kind: 'input',
    code: 'no-fleet',
    fact: 'This server was started without a Prometheus.',
    next: 'Start it with: plimsoll serve --prometheus http://prometheus:9090',
  });
}
