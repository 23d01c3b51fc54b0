/** What was found at one place of a file. */
export interface CodeFinding {
  readonly rule: string;
  readonly line: number;
  readonly message: string;
  /** Whether the diff changes it; otherwise it is for a person. */
  readonly changed: boolean;
}

/** A file in which something was found. */
export interface ReadFile {
  readonly path: string;
  /** Of its bytes, as they were read. */
  readonly sha256: string;
  readonly findings: readonly CodeFinding[];
  /** The whole new text, and what differs; absent where nothing can be changed safely. */
  readonly after?: string;
  readonly diff?: string;
}

/** What a code base holds that could be better. */
export interface CodeBase {
  /** Python files that were looked at. */
  readonly files: number;
  readonly found: readonly ReadFile[];
  /** Files that were left alone, and why. */
  readonly notUnderstood: readonly { readonly path: string; readonly why: string }[];
  /** Whether there were more files than are looked at. */
  readonly tooMany: boolean;
}
