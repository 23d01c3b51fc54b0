/** Looks again until it is so. How long that takes is up to the machine: the limit is the test's. */
export async function eventually(isSo: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await isSo())) await new Promise((resolve) => setTimeout(resolve, 10));
}
