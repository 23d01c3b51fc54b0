import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/**
 * The folder of this package: the nearest one above with a package.json. It is searched for
 * because the same code runs from `src`, from `dist` and from the bundled command, each at another
 * depth.
 */
export const packageFolder = nearestPackage(dirname(fileURLToPath(import.meta.url)));

function nearestPackage(from: string): string {
  if (existsSync(join(from, 'package.json'))) return from;
  const above = dirname(from);
  return above === from ? from : nearestPackage(above);
}

export function packageVersion(): string {
  const manifest: unknown = JSON.parse(readFileSync(join(packageFolder, 'package.json'), 'utf8'));
  return String(Reflect.get(Object(manifest), 'version'));
}
