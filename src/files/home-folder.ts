import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import { checkArguments, object, text } from '../units/arguments.js';

/**
 * Where plimsoll keeps its state: `$PLIMSOLL_HOME`, or `.plimsoll` in the user's home. It need not
 * exist yet.
 *
 * @example
 * homeFolder({ PLIMSOLL_HOME: '/srv/plimsoll' }); // '/srv/plimsoll'
 */
export function homeFolder(
  environment: Readonly<Record<string, string | undefined>>,
  userHome: string = homedir(),
): string {
  checkArguments('homeFolder', { environment, userHome }, { environment: object, userHome: text });
  const named = environment['PLIMSOLL_HOME'];
  return named ? resolve(named) : join(userHome, '.plimsoll');
}
