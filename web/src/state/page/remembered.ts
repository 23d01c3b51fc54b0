const prefix = 'plimsoll.';

/** What this browser was told to keep; nothing where it keeps nothing. */
export function remembered(key: string): string | undefined {
  try {
    return localStorage.getItem(prefix + key) ?? undefined;
  } catch {
    return undefined;
  }
}

export function remember(key: string, value: string): void {
  try {
    localStorage.setItem(prefix + key, value);
  } catch {
    // A browser that keeps nothing still shows the page.
  }
}
