/** A text that somebody sent, for a place where a line break or an escape would mean something. */
export function readable(text: string): string {
  return text.replaceAll(/\p{Cc}+/gu, ' ');
}
