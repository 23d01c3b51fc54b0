import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { schemaErrors } from '../../src/server/json-schema-for-tests.js';
import { parsePlainYaml } from '../deploy/deploy-files.js';

/**
 * The published OpenAPI of Kubernetes 1.32.4 (api/openapi-spec/swagger.json), cut to the kinds that we
 * write and what they are made of, without descriptions. Objects are closed, as kubectl's strict
 * validation has them.
 */
const document: { readonly definitions: Readonly<Record<string, object>> } = JSON.parse(
  gunzipSync(
    readFileSync(new URL('../fixtures/kubernetes-1.32-openapi.json.gz', import.meta.url)),
  ).toString('utf8'),
);

/** What is wrong with a manifest, as its kind is published. */
export function kubernetesErrors(manifest: unknown): readonly string[] {
  const { apiVersion, kind } = Object(manifest);
  const path = String(apiVersion).replace('.k8s.io', '').replace('/', '.');
  const name = `.${path.includes('.') ? path : `core.${path}`}.${kind}`;
  const found = Object.keys(document.definitions).find((one) => one.endsWith(name));
  if (found === undefined) return [`there is no kind ${apiVersion} ${kind}`];
  return schemaErrors(manifest, { $ref: `#/definitions/${found}` }, document);
}

/** The documents of a YAML file of ours, with numbers and booleans as they are written. */
export function manifestsIn(text: string): readonly unknown[] {
  const marked = text.replaceAll(/(: |- )(true|false|\d+)$/gm, '$1typed:$2');
  return marked
    .split(/^---$/m)
    .map((part) => JSON.parse(JSON.stringify(parsePlainYaml(part)), (_, value) => typed(value)));
}

function typed(value: unknown): unknown {
  const [, scalar] = typeof value === 'string' ? (/^typed:(.*)$/.exec(value) ?? []) : [];
  return scalar === undefined ? value : JSON.parse(scalar);
}
