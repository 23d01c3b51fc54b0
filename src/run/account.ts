/** The Unix account that a program runs as, where its supervisor is root. */
export interface Account {
  readonly uid: number;
  readonly gid: number;
  /** Unknown where the machine has no name for the uid; then it has no other groups either. */
  readonly name?: string | undefined;
  readonly home?: string | undefined;
  readonly shell?: string | undefined;
}
