import { readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { allowedWords, configJsonSchema, schemaLeaves } from './schema.js';
import { defaultSettings } from './settings.js';

/** The package of Python checks the same file by the same schema. */
const shipped = ['schema/plimsoll.config.schema.json', 'python/plimsoll/settings/schema.json'].map(
  (path) => new URL(`../../${path}`, import.meta.url),
);

describe('configJsonSchema', () => {
  it('is what the packages ship (write it anew with UPDATE_SCHEMA=1)', () => {
    const current: unknown = JSON.parse(JSON.stringify(configJsonSchema()));
    for (const path of shipped) {
      if (process.env['UPDATE_SCHEMA']) {
        writeFileSync(path, `${JSON.stringify(current, undefined, 2)}\n`);
      }
      expect(JSON.parse(readFileSync(path, 'utf8'))).toEqual(current);
    }
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
