import { Failure } from '../../failure.js';

/** What people can only turn off. */
const onByDefault = new Set(['reshard', 'origParams']);

/** Refuses options that are for models, where a program is run as it is. */
export function refuseForProgram(given: object, taken: ReadonlySet<string>): void {
  const other = Object.entries(given).find(
    ([name, value]) => value !== undefined && !taken.has(name),
  )?.[0];
  if (other === undefined) return;
  const option = `--${onByDefault.has(other) ? 'no-' : ''}${other.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
  throw new Failure({
    kind: 'input',
    code: 'not-with-program',
    fact: `${option} is for models; a program is run as it is.`,
    next: "Leave it out, or give it to the program, after the program's name.",
  });
}
