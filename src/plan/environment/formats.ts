import type { EnvironmentSetting } from './types.js';

/**
 * Lines for a POSIX shell, to be sourced. What is only to be considered is commented out.
 *
 * @example
 * shellLines([{ name: 'A', action: 'set', value: '1', reason: 'Why.' }]); // "export A='1'  # Why.\n"
 */
export function shellLines(settings: readonly EnvironmentSetting[]): string {
  return settings
    .map((setting) => {
      if (setting.action === 'unset') return `unset ${setting.name}  # ${setting.reason}\n`;
      const line = `${exportCommand(setting.name, setting.value)}  # ${setting.reason}\n`;
      return setting.action === 'set' ? line : `# ${line}`;
    })
    .join('');
}

/**
 * Lines for a `.env` file, with comments on lines of their own: Docker takes a comment after a
 * value for a part of it, and quotes, too, so a value gets them only where it needs them.
 *
 * @example
 * dotenvLines([{ name: 'A', action: 'set', value: '1', reason: 'Why.' }]); // '# Why.\nA=1\n'
 */
export function dotenvLines(settings: readonly EnvironmentSetting[]): string {
  return settings
    .map((setting) => {
      const why = `# ${setting.reason}\n`;
      if (setting.action === 'unset') return `${why}# ${setting.name} must not be set.\n`;
      const line = `${setting.name}=${dotenvValue(setting.value)}\n`;
      return setting.action === 'set' ? why + line : `${why}# ${line}`;
    })
    .join('');
}

export function exportCommand(name: string, value: string): string {
  return `export ${name}=${shellQuoted(value)}`;
}

/** Nothing between single quotes means anything to a shell, but the quote itself. */
function shellQuoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

function dotenvValue(text: string): string {
  if (/^[\w:,./+-]*$/.test(text)) return text;
  return `"${text.replaceAll(/["\\$`]/g, '\\$&').replaceAll('\n', '\\n')}"`;
}
