import { badArgument, sizeArgument } from './arguments.js';

/** `none` takes a limit away. */
export type OrNone<T> = T | 'none';

export function orNone<T>(read: (text: string) => T): (text: string) => OrNone<T> {
  return (text) => (text === 'none' ? 'none' : read(text));
}

/** As the store takes it: undefined leaves it as it is, null takes it away. */
export function orNull<T>(given: OrNone<T> | undefined): T | null | undefined {
  return given === 'none' ? null : given;
}

export const quotaSize = orNone(sizeArgument('--max-memory'));

/** As useradd takes names, and those of directory services. */
export const accountArgument = orNone((text: string): string => {
  if (/^[a-z_][\w.@-]{0,63}$/i.test(text)) return text;
  throw badArgument('--account', text, 'It takes the name of a Unix account, such as ada.');
});
