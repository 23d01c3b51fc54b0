/**
 * Whether what npm noted down after its last install is what the lockfile asks for. Optional
 * packages may be left out: most are binaries for other machines.
 */
export function isInstalled(lockfile, installed) {
  if (!installed) return false;
  return Object.entries(lockfile.packages).every(([path, wanted]) => {
    if (path === '') return true;
    const there = installed.packages[path];
    return there ? there.version === wanted.version : wanted.optional === true;
  });
}
