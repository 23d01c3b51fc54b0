/** Made from web/snapshot when the command is built. */
declare module 'plimsoll:snapshot-page' {
  export const snapshotScripts: { readonly page: string; readonly worker: string };
}
