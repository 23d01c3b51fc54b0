/** How the page stands with the server. */
export type Connection =
  | { readonly phase: 'connecting' }
  | { readonly phase: 'live' }
  | { readonly phase: 'lost'; readonly failures: number; readonly retryAtMs: number }
  /** The server asks for a token. */
  | { readonly phase: 'signed-out' };
