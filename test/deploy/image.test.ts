import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { root } from '../support/project-files.js';
import { deployText } from './deploy-files.js';

const dockerfile = deployText('Dockerfile');
const lines = dockerfile.replaceAll('\\\n', ' ').split('\n');
const ignored = deployText('Dockerfile.dockerignore').split('\n');

function instructions(name: string): readonly string[] {
  return lines.flatMap((line) =>
    line.startsWith(`${name} `) ? [line.slice(name.length + 1)] : [],
  );
}

/** What is copied from the checkout, not from another stage. */
const copied = instructions('COPY')
  .filter((line) => !line.includes('--from='))
  .flatMap((line) =>
    line
      .split(/\s+/)
      .filter((word) => !word.startsWith('--'))
      .slice(0, -1),
  )
  .filter((path) => path !== '.');

describe('deploy/Dockerfile', () => {
  it('names its images by their version', () => {
    const defaults = instructions('ARG').map((line) => line.split('=')[1] ?? '');
    expect(defaults.length).toBeGreaterThan(0);
    expect(defaults.filter((image) => !/:\d+\.\d+\.\d+/.test(image))).toEqual([]);
    expect(instructions('FROM')).toEqual(['${NODE} AS build', '${BASE}']);
  });

  it('does not run as root, keeps its state in a volume, and is asked how it is', () => {
    expect(instructions('USER').at(-1)).toMatch(/^[1-9]\d*:[1-9]\d*$/);
    expect(instructions('VOLUME')).toEqual(['/state']);
    expect(instructions('ENV')).toEqual(['PLIMSOLL_HOME=/state']);
    expect(dockerfile).toMatch(/^HEALTHCHECK [^]*?\/healthz/m);
  });

  it('copies files that are there and that the ignore file lets in', () => {
    expect(copied).toContain('deploy/container-start.sh');
    expect(copied.filter((path) => !existsSync(join(root, path)))).toEqual([]);
    const hidden = copied.filter(
      (path) => !ignored.some((line) => line.startsWith('!') && path.startsWith(line.slice(1))),
    );
    expect(hidden).toEqual([]);
  });

  it('takes nothing along but what it names', () => {
    expect(ignored.find((line) => line !== '' && !line.startsWith('#'))).toBe('*');
    const asked = ignored.filter((line) => line.startsWith('!')).map((line) => line.slice(1));
    expect(asked.filter((path) => !existsSync(join(root, path)))).toEqual([]);
    expect(asked.filter((path) => /\.git|\.env|token|^deploy$/.test(path))).toEqual([]);
  });
});
