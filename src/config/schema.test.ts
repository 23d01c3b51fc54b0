import { readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { configJsonSchema } from './schema.js';
import { allowedWords, schemaLeaves } from './schema-node.js';
import { defaultSettings } from './settings.js';

const shipped = new URL('../../schema/plimsoll.config.schema.json', import.meta.url);

describe('configJsonSchema', () => {
  it('is what the package ships (write it anew with UPDATE_SCHEMA=1)', () => {
    const current: unknown = JSON.parse(JSON.stringify(configJsonSchema()));
    if (process.env['UPDATE_SCHEMA']) {
      writeFileSync(shipped, `${JSON.stringify(current, undefined, 2)}\n`);
    }
    expect(JSON.parse(readFileSync(shipped, 'utf8'))).toEqual(current);
  });

  it('has a key for every threshold, and says of each what it is and takes', () => {
    const leaves = schemaLeaves(configJsonSchema());
    const keys = leaves.map(({ path }) => path.join('.'));
    const { enabled, ...thresholds } = defaultSettings.alerts;
    for (const threshold of Object.keys(thresholds)) expect(keys).toContain(`alerts.${threshold}`);
    for (const kind of Object.keys(enabled)) expect(keys).toContain(`alerts.enabled.${kind}`);
    for (const { node } of leaves) {
      expect(node['description']).toMatch(/\.$/);
      expect(allowedWords(node)).not.toMatch(/undefined/);
    }
  });
});
