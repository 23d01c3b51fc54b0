import { spawnSync } from 'node:child_process';
import { request } from 'node:https';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { setTimeout as wait } from 'node:timers/promises';
import { destroyAll, get, openSocket } from './support/hostile-sockets.mjs';
import { Server } from './support/server.mjs';

// The API server of a cluster waits for 10 s; the machine of a suite may have much else to do.
const soonMs = 30_000;

/** Those who ask next are answered, whatever others have asked for and left. */
export const crowdedExporter = {
  name: 'crowded-exporter',
  title: '200 pipelined scrapes on each of four connections, left unread',
  times: { full: 20, small: 1 },
  async attack({ place, times, findings }) {
    const exporter = new Server(place, { name: 'exporter', arguments: ['--simulate', 'leak'] });
    if (!(await exporter.listens())) throw new Error(`it did not start: ${exporter.stderr}`);
    for (let round = 0; round < times; round++) {
      const bytes = get('/metrics').repeat(200);
      const sockets = Array.from({ length: 4 }, () => openSocket(exporter.url, { bytes }));
      destroyAll(await Promise.all(sockets));
      const answer = await fetch(exporter.url, {
        signal: AbortSignal.timeout(soonMs),
      }).catch((error) => ({ status: error.name }));
      if (answer.status !== 200) findings.wrong.push(`the next scrape got ${answer.status}`);
    }
    await exporter.stop();
  },
};

export const crowdedWebhook = {
  name: 'crowded-webhook',
  title: '300 connections that say nothing, and 60 reviews at once',
  times: { full: 10, small: 1 },
  async attack({ place, times, findings }) {
    const [key, cert] = ['tls.key', 'tls.crt'].map((name) => join(place.folder, name));
    const made = ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-subj'];
    if (
      spawnSync('openssl', [...made, '/CN=localhost', '-keyout', key, '-out', cert]).status !== 0
    ) {
      findings.notes.push('left out: there is no openssl');
      return;
    }
    const more = ['--webhook', '--tls-cert', cert, '--tls-key', key, '--host', '127.0.0.1'];
    const webhook = new Server(place, { arguments: more });
    if (!(await webhook.listens())) throw new Error(`it did not start: ${webhook.stderr}`);
    for (let round = 0; round < times; round++) {
      const silent = Array.from({ length: 300 }, () => openSocket(webhook.url));
      const sockets = await Promise.all(silent);
      const models = Array.from({ length: 60 }, (_, at) =>
        JSON.stringify({ model: 'llama-3-70b', batch: at + 1, seq: 2048 + round }),
      );
      const crowd = models.map((model) => review(webhook.url, model));
      await wait(100);
      const answer = await review(webhook.url, '1GiB');
      if (answer.response?.patch === undefined) {
        findings.wrong.push(`a pod got no limit: ${JSON.stringify(answer).slice(0, 200)}`);
      }
      const unanswered = (await Promise.all(crowd)).filter(({ response }) => !response?.allowed);
      if (unanswered.length > 0) findings.wrong.push(`${unanswered.length} reviews got no answer`);
      destroyAll(sockets);
    }
    await webhook.stop();
  },
};

/** What a pod is answered whose annotation says so much. */
function review(url, estimate) {
  const metadata = { name: 'pod', annotations: { 'plimsoll.dev/estimate': estimate } };
  const object = { metadata, spec: { containers: [{ name: 'main', image: 'train' }] } };
  const kind = { group: '', version: 'v1', kind: 'Pod' };
  const asked = { uid: 'u', kind, operation: 'CREATE', namespace: 'default', object };
  const text = JSON.stringify({
    apiVersion: 'admission.k8s.io/v1',
    kind: 'AdmissionReview',
    request: asked,
  });
  return new Promise((resolve) => {
    const failed = (error) => resolve({ error: error.message });
    const headers = { 'content-type': 'application/json' };
    const options = { method: 'POST', rejectUnauthorized: false, timeout: soonMs, headers };
    const sent = request(url, options, (answer) => {
      json(answer).then(resolve, failed);
    });
    sent.on('timeout', () => sent.destroy(new Error(`no answer in ${soonMs} ms`)));
    sent.on('error', failed);
    sent.end(text);
  });
}
