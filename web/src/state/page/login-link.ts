/** The code of a link that `plimsoll dashboard` printed: `#login=CODE`. */
export function loginCode(hash: string): string | undefined {
  return /^#login=([\w-]+)$/.exec(hash)?.[1];
}
