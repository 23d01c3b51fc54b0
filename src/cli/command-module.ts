import type { Command } from 'commander';
import type { CliIo } from './io.js';

/** What a command's file exports: it adds options and an action to the command it is given. */
export interface CommandModule {
  define(command: Command, context: CommandContext): void;
}

export interface CommandContext {
  readonly io: CliIo;
  readonly version: string;
  /** Wraps an action so that the number it answers becomes the exit code. */
  action<Arguments extends readonly unknown[]>(
    act: (...given: Arguments) => Promise<number>,
  ): (...given: Arguments) => Promise<void>;
}
