// Node's BullMQ: `node bullmq_node.mjs fill|work|send`, with what Python's programs get in BENCH_… variables.
// It is installed in an environment of its own, from which it is imported by path.
import { appendFileSync, existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

const { BENCH_FOLDER: folder, BENCH_HOME: home } = process.env;
const { Queue, Worker } = createRequire(join(home, 'package.json'))('bullmq');
const size = Number(process.env.BENCH_SIZE);
const connection = { host: '127.0.0.1', port: Number(process.env.BENCH_REDIS_PORT), maxRetriesPerRequest: null };
const BATCH = 1000;
const WARM = 5;
// As ours: three attempts, and what has finished is removed.
const opts = { attempts: 3, removeOnComplete: true, removeOnFail: true };

function mail(number, sentNs = 0n) {
  return {
    user_id: number,
    address: `user${number}@example.org`,
    subject: 'Your order has been shipped',
    tags: ['order', 'shipping'],
    // Text: a bigint is no JSON, and a double does not hold nanoseconds.
    sent_ns: String(sentNs),
  };
}

function note(name) {
  writeFileSync(join(folder, `${name}.new`), String(Date.now() / 1000));
  renameSync(join(folder, `${name}.new`), join(folder, name));
}

function fail(error) {
  console.error(String(error));
  process.exit(1);
}

function opened() {
  const queue = new Queue('bench', { connection });
  queue.on('error', fail);
  return queue;
}

function lines(name) {
  const place = join(folder, name);
  return existsSync(place) ? readFileSync(place, 'utf8').split('\n').length - 1 : 0;
}

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function waitForLines(name, count) {
  const giveUp = Date.now() + 30_000;
  while (lines(name) < count) {
    if (Date.now() > giveUp) throw new Error(`${lines(name)} of ${count} jobs had begun after 30 s`);
    await sleep(20);
  }
}

async function fill() {
  const queue = opened();
  await queue.waitUntilReady();
  const begun = process.hrtime.bigint();
  for (let start = 0; start < size; start += BATCH) {
    const jobs = [];
    for (let number = start; number < Math.min(start + BATCH, size); number += 1) {
      jobs.push({ name: 'noop', data: mail(number), opts });
    }
    await queue.addBulk(jobs);
  }
  console.log(size / (Number(process.hrtime.bigint() - begun) / 1e9));
  await queue.close();
}

function work() {
  let runs = 0;
  const processor = async (job) => {
    if (job.name === 'late') {
      const sent = BigInt(job.data.sent_ns);
      const late = process.hrtime.bigint() - sent;
      appendFileSync(join(folder, sent ? 'latencies' : 'warm'), `${late}\n`);
      return;
    }
    runs += 1;
    if (runs === 1) note('first');
    if (runs === size) note('last');
  };
  const concurrency = Number(process.env.BENCH_CONCURRENCY);
  const worker = new Worker('bench', processor, { connection, concurrency });
  worker.on('error', fail);
  worker.waitUntilReady().then(() => note('ready'));
  process.on('SIGTERM', () => worker.close().then(() => process.exit(0)));
}

async function send() {
  const queue = opened();
  await queue.waitUntilReady();
  for (let number = 0; number < WARM; number += 1) {
    await queue.add('late', mail(number), opts);
    await waitForLines('warm', number + 1);
  }
  for (let number = 0; number < size; number += 1) {
    await sleep(20 + Math.random() * 40);
    await queue.add('late', mail(number, process.hrtime.bigint()), opts);
  }
  await waitForLines('latencies', size);
  await queue.close();
}

await Promise.resolve({ fill, work, send }[process.argv[2]]()).catch(fail);
