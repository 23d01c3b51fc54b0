import { readFileSync, statSync } from 'node:fs';
import { createSecureContext } from 'node:tls';
import type { AdmissionRules } from '../../engine/kubernetes/admission/answer-review.js';
import { Failure } from '../../failure.js';
import { readReason } from '../../files/read-reason.js';
import { systemClock } from '../../time/clock.js';
import { MiB } from '../../units/bytes.js';
import { closeServers } from '../http/close-server.js';
import { listen } from '../http/listen.js';
import { type Certificate, createWebhookServer } from './webhook-listener.js';

export interface WebhookOptions {
  readonly host: string;
  readonly port: number;
  /** Absolute paths of PEM files. */
  readonly certFile: string;
  readonly keyFile: string;
  readonly rules: AdmissionRules;
  /** Lines for the person who runs it. */
  readonly log: (line: string) => void;
}

export interface Webhook {
  readonly url: string;
  /** Looks at the files of the certificate, as it does by itself now and then. */
  renew(): void;
  close(): Promise<void>;
}

/** A chain of certificates has some kilobytes. */
const maxPemBytes = MiB;
/** Certificates of a cluster are renewed while it runs; a mounted secret changes within a minute or two. */
const lookMs = 30_000;

/** Listens; takes up a new certificate when the files change. */
export async function openWebhook(options: WebhookOptions): Promise<Webhook> {
  const { host, port, log } = options;
  let current = readCertificate(options);
  const server = createWebhookServer(current, options.rules);
  const { url } = await listen(server, host, port, 'https');
  server.on('error', (error) => log(`It cannot take a connection: ${error.message}`));
  let trouble = '';
  const renew = (): void => {
    try {
      const next = readCertificate(options);
      trouble = '';
      if (next.cert.equals(current.cert) && next.key.equals(current.key)) return;
      server.setSecureContext(next);
      current = next;
      log('The certificate changed; new connections use the new one.');
    } catch (error) {
      // Written in two steps, or broken: the one that works stays.
      const text = error instanceof Error ? error.message : String(error);
      if (text !== trouble) log(`The earlier certificate stays in use: ${text}`);
      trouble = text;
    }
  };
  const looking = setInterval(renew, lookMs);
  looking.unref();
  return {
    url,
    renew,
    async close() {
      clearInterval(looking);
      await closeServers([server], () => {}, systemClock);
    },
  };
}

function readCertificate({ certFile, keyFile }: WebhookOptions): Certificate {
  const certificate = { cert: readPem(certFile), key: readPem(keyFile) };
  try {
    createSecureContext(certificate);
    return certificate;
  } catch (error) {
    throw badCertificate(
      `${certFile} and ${keyFile} are not a certificate and its key: ${readReason(error)}.`,
      error,
    );
  }
}

function readPem(path: string): Buffer {
  try {
    if (statSync(path).size > maxPemBytes) throw badCertificate(`${path} is larger than 1 MiB.`);
    return readFileSync(path);
  } catch (error) {
    if (error instanceof Failure) throw error;
    throw badCertificate(`${path} cannot be read: ${readReason(error)}.`, error);
  }
}

function badCertificate(fact: string, cause?: unknown): Failure {
  return new Failure({
    kind: 'input',
    code: 'bad-certificate',
    fact,
    next: 'Name two PEM files that belong together: --tls-cert tls.crt --tls-key tls.key',
    cause,
  });
}
