type Versions = Readonly<Record<string, string | undefined>>;

export const supported: string;
export function isSupported(version: string): boolean;
export function parsePins(text: string): Record<string, string>;
export function lacking(pins: Readonly<Record<string, string>>, installed: Versions): string[];
export function stampOf(requirements: string, pythonVersion: string, machine: string): string;
