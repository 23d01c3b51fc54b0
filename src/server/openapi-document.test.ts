import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { madeWaiting } from '../jobs/daemon/made-for-tests.js';
import { attemptForTests } from '../jobs/store/attempt-for-tests.js';
import { isObject, resolveRef, type Schema, schemaErrors } from './json-schema-for-tests.js';
import { openEvents, startTestServer, type TestServer } from './server-for-tests.js';

let server: TestServer;
let document: Schema;
beforeEach(async () => {
  server = await startTestServer();
  const { id } = await server.daemon.submit({ command: ['true'] });
  server.daemon.change(id, {
    state: 'running',
    reservation: { devices: ['gpu:0'], bytes: 5, basis: 'measured' },
    attempts: [attemptForTests({ exitCode: 'unknown' })],
  });
  document = objectOf(await (await server.ask('/openapi.json')).json());
});
afterEach(() => server.close());

interface Declared {
  readonly name: string;
  readonly path: string;
  readonly method: string;
  readonly operation: Schema;
}

function objectOf(value: unknown): Schema {
  if (isObject(value)) return value;
  throw new Error(`${JSON.stringify(value)} is no object`);
}

function listOf(value: unknown): readonly Schema[] {
  return Array.isArray(value) ? value.map(objectOf) : [];
}

function operations(): readonly Declared[] {
  return Object.entries(objectOf(document['paths'])).flatMap(([path, methods]) =>
    Object.entries(objectOf(methods)).map(([method, operation]) => ({
      name: `${method} ${path}`,
      path,
      method: method.toUpperCase(),
      operation: objectOf(operation),
    })),
  );
}

/** What a client that knows nothing but the document would send. */
function requestFor({ path, method, operation }: Declared): { path: string; init: RequestInit } {
  let address = path;
  const query = new URLSearchParams();
  for (const parameter of listOf(operation['parameters'])) {
    const name = String(parameter['name']);
    const example = parameter['example'] ?? objectOf(parameter['schema'])['example'];
    const text = Array.isArray(example) ? example.join(',') : String(example);
    if (parameter['in'] === 'path')
      address = address.replace(`{${name}}`, encodeURIComponent(text));
    else if (parameter['in'] === 'query' && example !== undefined) query.set(name, text);
  }
  const body = bodyOf(operation);
  const search = query.size === 0 ? '' : `?${query.toString()}`;
  if (body === undefined) return { path: address + search, init: { method } };
  const headers = { 'content-type': 'application/json' };
  const init = { method, headers, body: JSON.stringify(body['example']) };
  return { path: address + search, init };
}

function bodyOf(operation: Schema): Schema | undefined {
  const { requestBody } = operation;
  if (requestBody === undefined) return undefined;
  return objectOf(objectOf(objectOf(requestBody)['content'])['application/json']);
}

function answersOf({ operation }: Declared): Schema {
  return objectOf(operation['responses']);
}

/** Each declared content of each answer. */
function contentsOf(answer: unknown): readonly (readonly [string, Schema])[] {
  const { content } = objectOf(answer);
  return content === undefined
    ? []
    : Object.entries(objectOf(content)).map(([type, media]) => [type, objectOf(media)]);
}

describe('the OpenAPI document', () => {
  it('is OpenAPI 3.1, of this version', () => {
    expect(document).toMatchObject({
      openapi: '3.1.0',
      info: { title: 'Plimsoll', version: '1.2.3' },
      servers: [{ url: '/' }],
    });
  });

  it('has every route of the contract', () => {
    expect(
      operations()
        .map(({ name }) => name)
        .toSorted(),
    ).toEqual([
      'delete /jobs/{id}',
      'delete /session',
      'get /devices',
      'get /devices/{id}/history',
      'get /events',
      'get /fleet',
      'get /healthz',
      'get /jobs',
      'get /jobs/{id}',
      'get /jobs/{id}/history',
      'get /jobs/{id}/log',
      'get /jobs/{id}/report',
      'get /jobs/{id}/request',
      'get /jobs/{id}/snapshots/{attempt}',
      'get /metrics',
      'get /names',
      'get /openapi.json',
      'get /proof',
      'get /session',
      'get /workers/status',
      'post /estimate',
      'post /estimate/assumptions',
      'post /jobs',
      'post /jobs/{id}/limit',
      'post /plan',
      'post /plan/assumptions',
      'post /session',
      'post /session/link',
    ]);
  });

  it('is whole: ids, words, parameters, answers and references', () => {
    const ids = operations().map(({ operation }) => String(operation['operationId']));
    expect(new Set(ids).size).toBe(ids.length);
    for (const declared of operations()) {
      const { path, method, operation } = declared;
      expect(String(operation['summary']).length).toBeGreaterThan(3);
      expect(operation['tags']).toHaveLength(1);
      const inPath = listOf(operation['parameters']).filter((one) => one['in'] === 'path');
      const placeholders = [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1]);
      expect(inPath.map((one) => one['name'])).toEqual(placeholders);
      expect(inPath.every((one) => one['required'] === true)).toBe(true);
      expect(operation['requestBody'] !== undefined).toBe(method === 'POST');
      const answers = answersOf(declared);
      expect(Object.keys(answers)).toEqual(expect.arrayContaining(['400', '403', '500']));
      expect(Object.keys(answers).some((status) => /^2\d\d$/.test(status))).toBe(true);
      for (const answer of Object.values(answers)) {
        expect(String(objectOf(answer)['description']).length).toBeGreaterThan(3);
      }
    }
    const refs = [...JSON.stringify(document).matchAll(/"\$ref":"([^"]+)"/g)];
    expect(refs.length).toBeGreaterThan(20);
    for (const ref of refs) expect(() => resolveRef(ref[1] ?? '', document)).not.toThrow();
  });

  it('declares every error in the one form that errors have', () => {
    for (const declared of operations()) {
      for (const [status, answer] of Object.entries(answersOf(declared))) {
        if (Number(status) < 400 || declared.path === '/healthz') continue;
        const [[type, media] = ['', {}]] = contentsOf(answer);
        expect(type).toBe('application/json');
        expect(objectOf(media)['schema']).toEqual({ $ref: '#/components/schemas/Error' });
      }
    }
  });

  it('has examples that its own schemas take', () => {
    let checked = 0;
    for (const declared of operations()) {
      const body = bodyOf(declared.operation);
      const medias = Object.values(answersOf(declared)).flatMap((answer) => contentsOf(answer));
      for (const media of [...(body ? [body] : []), ...medias.map(([, one]) => one)]) {
        if (media['example'] === undefined) continue;
        checked += 1;
        const errors = schemaErrors(media['example'], objectOf(media['schema']), document);
        expect(errors).toEqual([]);
      }
    }
    expect(checked).toBeGreaterThan(15);
  });

  it('is enough for a client that knows nothing else: every operation answers as declared', async () => {
    for (const declared of operations().toSorted((a, b) => order(a) - order(b))) {
      const { path, init } = requestFor(declared);
      if (declared.path === '/events') continue;
      const answer = await server.ask(path, init);
      // Without a token there is nothing to log in to, and nothing to prove.
      const needsToken = ['post /session', 'post /session/link', 'get /proof'];
      const ofEnded = ['get /jobs/{id}/report', 'get /jobs/{id}/snapshots/{attempt}'];
      const expected = needsToken.includes(declared.name)
        ? [400]
        : ofEnded.includes(declared.name)
          ? [404]
          : [200, 201, 204];
      expect(expected).toContain(answer.status);
      const described = answersOf(declared)[String(answer.status)];
      const contents = contentsOf(described);
      const text = await answer.text();
      if (contents.length === 0) {
        expect(text).toBe('');
        continue;
      }
      const type = (answer.headers.get('content-type') ?? '').split(';')[0] ?? '';
      const media = contents.find(([one]) => one === type)?.[1];
      expect(media).toBeDefined();
      const value: unknown = type === 'application/json' ? JSON.parse(text) : text;
      const errors = schemaErrors(value, objectOf(media?.['schema']), document);
      expect(errors).toEqual([]);
    }
  });

  it('is enough to listen: every event is as declared', async () => {
    const declared = operations().find(({ path }) => path === '/events');
    const described = declared && answersOf(declared)['200'];
    const media = contentsOf(described).find(([type]) => type === 'text/event-stream')?.[1];
    const client = openEvents(server.port, '/events?after=999');
    const { daemon } = server;
    await client.until(/event: reset/);
    const counts = daemon.counts();
    daemon.publish({ type: 'devices', epochMs: 1, devices: daemon.devices() });
    const waiting = [{ id: '1', ...madeWaiting() }];
    daemon.publish({ type: 'queue', waiting, counts });
    await daemon.submit({ command: ['true'] });
    const alert = {
      kind: 'leak',
      state: 'raised',
      severity: 'warning',
      deviceId: 'gpu:0',
      pid: 5,
      atSeconds: 1,
      epochMs: 1,
      message: 'x',
      recommendations: [],
      provenance: 'simulated',
    } as const;
    daemon.publish({ type: 'alert', alert });
    const events = await client.untilEvents(5);
    expect(events.map(({ event }) => event)).toEqual(['reset', 'devices', 'queue', 'job', 'alert']);
    for (const { event, data } of events) {
      expect(schemaErrors(data, objectOf(media?.['schema']), document)).toEqual([]);
      expect(data).toMatchObject({ type: event });
    }
    client.socket.destroy();
  });

  it('is held to by requests: what its schemas refuse is refused, what they take is taken', async () => {
    const schema = { $ref: '#/components/schemas/JobRequest' };
    for (const body of [
      { command: ['a'] },
      { command: ['a'], env: { A: 'b' }, timeoutSeconds: 5 },
      { command: [] },
      { command: ['a'], gpus: 65 },
      { command: ['a'], priority: 0.5 },
      { command: ['a'], unheard: 1 },
      { command: ['a'], workload: { precision: 'fp8' } },
      { command: ['a'], workload: { precision: 'bf16' } },
      { memoryBytes: 5 },
    ]) {
      const isTaken = schemaErrors(body, schema, document).length === 0;
      const answer = await server.send('POST', '/jobs', body);
      expect(answer.status === 201).toBe(isTaken);
    }
  });
});

/** The job that is shown must not be cancelled before it was. */
function order({ method }: Declared): number {
  return method === 'DELETE' ? 1 : 0;
}
