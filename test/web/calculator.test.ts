import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { makeCalculator } from '../../scripts/calculator.mjs';
import { Failure } from '../../src/failure.js';
import { shippedCatalogue } from '../../src/model/names/find-model.js';
import { answer, curvePoint } from '../../web/calculator/answer.js';
import { commandOf, draftFrom, hashOf } from '../../web/calculator/question.js';
import { parseTables } from '../../web/calculator/tables.js';
import { root } from '../support/project-files.js';
import { axeViolations } from './audit.js';
import { needsChromium, openPage, useChromium, type WatchedPage } from './chromium.js';

const tables = parseTables(readFileSync(`${root}web/calculator/tables.jsonl`, 'utf8'));
const known = { catalogue: shippedCatalogue(), tables };
const ask = (hash: string) => answer({ draft: draftFrom(hash) }, known);

function failureOf(hash: string): Failure {
  try {
    ask(hash);
  } catch (error) {
    if (error instanceof Failure) return error;
  }
  throw new Error(`${hash} was answered`);
}

describe('the question of the calculator', () => {
  it('stands in a link, whole', () => {
    const draft = { ...draftFrom(''), model: 'a b&c', config: '{"model_type": "gpt2"}', gpus: '8' };
    expect(draftFrom(hashOf(draft))).toEqual(draft);
  });

  it('becomes the command that asks the same', () => {
    const draft = draftFrom('#model=gpt2&gpu=h100&batch=8&checkpointing=yes&gpus=4');
    expect(commandOf(draft)).toBe(
      'plimsoll estimate gpt2 --gpu h100 --batch 8 --checkpointing --gpus 4 --parallel ddp',
    );
    expect(commandOf(draftFrom('#model=gpt2&mode=serve&gpu=t4&maxModelLen=512'))).toBe(
      'plimsoll estimate gpt2 --mode serve --gpu t4 --max-model-len 512',
    );
  });

  it('is answered with its command, the lengths that were assumed in it', () => {
    expect(ask('#model=gpt2&gpu=4090').command).toBe(
      'plimsoll estimate gpt2 --gpu 4090 --batch 1 --seq 1024 --precision fp32',
    );
  });
});

describe('the answer of the calculator', () => {
  it('names the cards that have the memory, the smallest first', () => {
    const { cards, estimate } = ask('#model=gpt2&gpu=4090&batch=8&seq=512');
    const smallest = cards.find(({ fits }) => fits === 'yes');
    expect(smallest?.capacityBytes).toBeGreaterThan(estimate.peak.leastCapacityBytes);
    expect(cards.filter(({ fits }) => fits === 'no')).toHaveLength(
      cards.filter(({ capacityBytes }) => capacityBytes < estimate.peak.leastCapacityBytes).length,
    );
  });

  it('grows along batch and sequence', () => {
    const asked = { draft: draftFrom('#model=gpt2&gpu=4090&batch=8&seq=512') };
    const { workload } = answer(asked, known);
    if (workload === undefined) throw new Error('no workload');
    const at = (along: 'batch' | 'sequence', value: number) =>
      curvePoint(asked, known, workload, along, value).deviceBytes;
    expect(at('batch', 16)).toBeGreaterThan(at('batch', 8));
    expect(at('sequence', 256)).toBeLessThan(at('sequence', 512));
  });

  it('tells what a server has room for', () => {
    const { serve } = ask('#model=llama-3-8b&mode=serve&gpu=h100&maxModelLen=8192');
    expect(serve?.requests).toBeGreaterThan(10);
  });

  it('holds the peak of every measured rank in its interval', { tags: 'rest' }, () => {
    const { results } = JSON.parse(readFileSync(`${root}bench/truth/sharded.json`, 'utf8'));
    const outside: string[] = [];
    for (const { id, ...run } of results) {
      const precision = run.precision === 'bf16-mixed' ? 'amp-bf16' : run.precision;
      const { estimate } = ask(
        `#model=${run.model}&gpu=h200&batch=${run.batch}&seq=${run.seq}&precision=${precision}` +
          `&checkpointing=${run.checkpointing ? 'yes' : ''}&gpus=${run.world}&parallel=${run.way}`,
      );
      const { lowBytes, highBytes } = estimate.interval;
      if (run.peak_reserved < lowBytes || run.peak_reserved > highBytes) outside.push(id);
    }
    expect(results.length).toBeGreaterThan(20);
    expect(outside).toEqual([]);
  });

  it('meets the traces that did not make its tables', () => {
    const far: string[] = [];
    for (const [name, table] of Object.entries(tables)) {
      for (const [setting, [, , , held]] of Object.entries(table)) {
        if (held === undefined) continue;
        const [mode, precision] = setting.split(' ');
        const { estimate } = ask(
          `#model=${name}&mode=${mode}&precision=${precision}&gpu=h100&optimizer=sgd&batch=${held.batch}&image=${held.image}`,
        );
        const { lowBytes, highBytes } = estimate.interval;
        if (held.reservedBytes < lowBytes || held.reservedBytes > highBytes) {
          far.push(`${name} ${setting}`);
        }
      }
    }
    expect(Object.keys(tables).length).toBeGreaterThan(3);
    expect(far).toEqual([]);
  });

  it('says that it knows nothing of a model without formula and table, and how to trace it', () => {
    const { fact, next } = failureOf('#model=torchvision:alexnet_unknown');
    expect(fact).toContain('unknown');
    expect(next).toContain('plimsoll estimate torchvision:alexnet_unknown');
    expect(failureOf('#model=lama-3-8b').next).toContain('llama');
    expect(failureOf('#model=gpt2&batch=many').fact).toContain('"many"');
  });
});

describe('the page of the calculator', needsChromium, () => {
  const { browser } = useChromium();
  const folder = mkdtempSync(join(tmpdir(), 'plimsoll-calculator-'));
  const file = pathToFileURL(join(folder, 'index.html')).href;
  let gzip = 0;
  let opened: WatchedPage | undefined;
  beforeAll(async () => {
    ({ gzip } = await makeCalculator(folder));
  });
  afterEach(async () => opened?.close());
  afterAll(() => rmSync(folder, { recursive: true }));

  async function open(hash: string) {
    opened = await openPage(browser(), `${file}${hash}`);
    return opened.page;
  }

  it('has at most 400 kB packed', () => {
    expect(gzip).toBeGreaterThan(10_000);
    expect(gzip).toBeLessThan(400_000);
  });

  it('answers from a file, without a server, and keeps the question in its address', async () => {
    const page = await open('#model=gpt2&gpu=h100&batch=8&seq=512');
    await page.getByRole('heading', { name: /It fits into the 79\.\d GiB/ }).waitFor();
    await page.getByRole('img', { name: /Batch\. .*64: / }).waitFor();
    await page.getByRole('textbox', { name: 'Batch' }).fill('16');
    await page.getByText('--batch 16').waitFor();
    expect(page.url()).toContain('batch=16');
  });

  it('has nothing that axe-core finds wrong, in any look', { tags: 'rest' }, async () => {
    const page = await open('#model=gpt2&gpu=h100&batch=8&seq=512');
    await page.getByRole('img', { name: /Batch\. .*64: / }).waitFor();
    await page.getByText(/^All \d+ cards$/).click();
    expect(await axeViolations(page)).toEqual([]);
  });

  it('reads a pasted config and the header of weights', { tags: 'rest' }, async () => {
    const page = await open('#model=gpt2&mode=infer&gpu=h100&batch=1&seq=128');
    await page.getByText('A model of your own').click();
    await page.getByLabel('A config.json, pasted').fill('{"model_type": "gpt2", "n_layer": 3}');
    await page.getByText(/config\.json --mode infer/).waitFor();
    const header = Buffer.from('{"w":{"dtype":"F32","shape":[256,256],"data_offsets":[0,262144]}}');
    const length = Buffer.alloc(8);
    length.writeBigUInt64LE(BigInt(header.length));
    const weights = join(folder, 'w.safetensors');
    writeFileSync(weights, Buffer.concat([length, header, Buffer.alloc(262_144)]));
    await page.getByLabel('A config.json, pasted').fill('');
    await page.locator('#weights').setInputFiles(weights);
    await page.getByText(/Only the header of the weights is known/).waitFor();
    expect(await page.getByText(/0 M parameters/).count()).toBe(1);
  });

  it('says what is unknown, with the command to type', { tags: 'rest' }, async () => {
    const page = await open('#model=torchvision:alexnet_unknown&gpu=h100');
    const alert = page.getByRole('alert');
    await alert.waitFor();
    expect(await alert.innerText()).toMatch(/is unknown here[^]*plimsoll estimate torchvision:/);
  });

  it('opens again from a web server that is gone', { tags: 'rest' }, async () => {
    const server = createServer((request, response) => {
      const name = request.url === '/offline.js' ? 'offline.js' : 'index.html';
      const type = name.endsWith('js') ? 'text/javascript' : 'text/html';
      response.writeHead(200, { 'content-type': type }).end(readFileSync(join(folder, name)));
    });
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
    const address = server.address();
    const port = typeof address === 'object' ? address?.port : undefined;
    opened = await openPage(browser(), `http://127.0.0.1:${port}/#model=gpt2&gpu=h100`);
    const { page } = opened;
    await page.getByRole('heading', { name: /It fits/ }).waitFor();
    await page.evaluate('navigator.serviceWorker.ready.then(() => true)');
    await page.waitForFunction('navigator.serviceWorker.controller !== null');
    server.closeAllConnections();
    await new Promise((done) => server.close(done));
    await page.reload();
    const heading = page.getByRole('heading', { name: /It fits/ });
    await heading.waitFor();
    expect(await heading.count()).toBe(1);
  });
});
