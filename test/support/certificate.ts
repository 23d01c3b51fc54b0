import { spawnSync } from 'node:child_process';
import { join } from 'node:path';

/** A certificate of its own authority for localhost and 127.0.0.1, made with the openssl of this machine. */
export function makeCertificate(folder: string): { readonly cert: string; readonly key: string } {
  const [cert, key] = [join(folder, 'tls.crt'), join(folder, 'tls.key')];
  const names = 'subjectAltName=DNS:localhost,IP:127.0.0.1';
  const words = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1'];
  const made = spawnSync(
    'openssl',
    [...words, '-nodes', '-subj', '/CN=localhost', '-addext', names, '-keyout', key, '-out', cert],
    { encoding: 'utf8' },
  );
  if (made.status !== 0) throw new Error(`openssl made no certificate: ${made.stderr}`);
  return { cert, key };
}
