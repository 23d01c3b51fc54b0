// The files that make a zip a wheel: what it is, for which machines, and the hash of each file.
import { createHash } from 'node:crypto';

/** Node 20 asks for glibc 2.28, on both architectures. */
const platformTags = {
  x64: 'manylinux_2_28_x86_64',
  arm64: 'manylinux_2_28_aarch64',
  any: 'any',
};

export function wheelTag(target) {
  return `py3-none-${platformTags[target]}`;
}

/**
 * @param {{ target: 'x64' | 'arm64' | 'any', project: Record<string, string>, readme: string }} wheel
 * @returns {{ name: string, data: Buffer, mode: number }[]} without RECORD
 */
export function distributionFiles({ target, project, readme }) {
  const info = infoFolder(project);
  const pure = target === 'any';
  return [
    textFile(`${info}/METADATA`, metadata(project, readme)),
    textFile(
      `${info}/WHEEL`,
      `Wheel-Version: 1.0\nGenerator: plimsoll\nRoot-Is-Purelib: ${pure}\nTag: ${wheelTag(target)}\n`,
    ),
    textFile(`${info}/entry_points.txt`, '[console_scripts]\nplimsoll = plimsoll.command:main\n'),
  ];
}

/** Must be the last file: it holds the hash of every other. */
export function recordFile(files, project) {
  const name = `${infoFolder(project)}/RECORD`;
  const lines = files.map((file) => {
    const hash = createHash('sha256').update(file.data).digest('base64url');
    return `${quoted(file.name)},sha256=${hash},${file.data.length}`;
  });
  return textFile(name, `${[...lines, `${name},,`].join('\n')}\n`);
}

function metadata({ name, version, summary, requiresPython, license }, readme) {
  const fields = [
    'Metadata-Version: 2.1',
    `Name: ${name}`,
    `Version: ${version}`,
    `Summary: ${summary}`,
    `License: ${license}`,
    `Requires-Python: ${requiresPython}`,
    'Description-Content-Type: text/markdown',
  ];
  return `${fields.join('\n')}\n\n${readme}`;
}

function infoFolder({ name, version }) {
  return `${name}-${version}.dist-info`;
}

/** RECORD is a CSV file; a name with a comma or a quote is quoted. */
function quoted(name) {
  return /[",]/.test(name) ? `"${name.replaceAll('"', '""')}"` : name;
}

function textFile(name, text) {
  return { name, data: Buffer.from(text), mode: 0o644 };
}
