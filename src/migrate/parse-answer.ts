import { parseObject } from '../files/own-file.js';
import type { CodeBase, CodeFinding, ReadFile } from './types.js';

/**
 * What the reader in Python said, one JSON object a line. Undefined where it did not come to its end:
 * its last line counts the files.
 */
export function parseAnswer(text: string): CodeBase | undefined {
  const found: ReadFile[] = [];
  const notUnderstood: { path: string; why: string }[] = [];
  let tooMany = false;
  for (const line of text.split('\n')) {
    const said = parseObject(line);
    if (said === undefined) continue;
    const { path, sha256, findings, after, diff, notUnderstood: why, files } = said;
    if (typeof files === 'number') return { files, found, notUnderstood, tooMany };
    if (typeof said['tooMany'] === 'number') tooMany = true;
    if (typeof path !== 'string') continue;
    if (typeof why === 'string') notUnderstood.push({ path, why });
    else if (typeof sha256 === 'string' && Array.isArray(findings)) {
      const both = typeof after === 'string' && typeof diff === 'string' ? { after, diff } : {};
      found.push({ path, sha256, findings: findings.flatMap(findingOf), ...both });
    }
  }
  return undefined;
}

function findingOf(value: unknown): CodeFinding[] {
  const field = (name: string): unknown => Reflect.get(Object(value), name);
  const [rule, line, message] = [field('rule'), field('line'), field('message')];
  if (typeof rule !== 'string' || typeof line !== 'number' || typeof message !== 'string') {
    return [];
  }
  return [{ rule, line, message, changed: field('changed') === true }];
}
