/** The parts of package-lock.json, and of npm's note in node_modules, that are compared. */
interface Lockfile {
  readonly packages: Readonly<
    Record<string, { readonly version: string; readonly optional?: boolean }>
  >;
}

export function isInstalled(lockfile: Lockfile, installed: Lockfile | undefined): boolean;
