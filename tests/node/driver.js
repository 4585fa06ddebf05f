'use strict';
// The Node side of the tests: BullMQ's own classes, steered by JSON lines, one request a line, answers in any order.
//
//   argv: the folder of node_modules
//   in:   {"id", "op", …}, see `operations`
//   out:  {"id", "ok"} or {"id", "error", "kind"} for each request;
//         {"of", "event", "said"} for what a worker or a QueueEvents with that handle sees
//
// In arguments, {"$error": text, "kind"} becomes an Error (of that class), {"$now": ms} the instant that many ms from now.

const { createRequire } = require('node:module');
const { createInterface } = require('node:readline');
const load = createRequire(process.argv[2] + '/');
const library = (major) => load(major === 5 ? 'bullmq5' : 'bullmq');

const say = (message) => process.stdout.write(JSON.stringify(message) + '\n');
const open = new Map(); // handle -> { it, lib }
const held = new Map(); // job id -> what lets its run go on
const until = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// What a worker does with a job, by the job's name.
const behaviours = {
  ok: async (job) => job.data,
  fail: async (job) => { throw new Error(job.data.message); },
  flaky: async (job) => {
    if (job.attemptsMade < job.data.times) throw new Error(`attempt ${job.attemptsMade + 1}`);
    return job.attemptsMade + 1;
  },
  slow: async (job) => { await until(job.data.ms); return 'slept'; },
  hold: async (job) => { await new Promise((resolve) => held.set(job.id, resolve)); return 'released'; },
  progress: async (job) => { for (const step of job.data) await job.updateProgress(step); return 'told'; },
  log: async (job) => { for (const line of job.data) await job.log(line); return 'written'; },
  fatal: async (job, _token, { lib }) => { throw new lib.UnrecoverableError(job.data.message); },
  later: async (job, token, { lib }) => {
    if (job.attemptsStarted > 1) return job.attemptsStarted;
    await job.moveToDelayed(Date.now() + job.data.ms, token);
    throw new lib.DelayedError();
  },
  limited: async (job, _token, { it, lib }) => {
    if (job.attemptsStarted > 1) return job.attemptsStarted;
    await it.rateLimit(job.data.ms);
    throw new lib.RateLimitError();
  },
  // A parent that adds its child while it runs, and waits for it.
  spawn: async (job, token, { it, lib }) => {
    if (job.attemptsStarted > 1) return job.getChildrenValues();
    const queue = new lib.Queue(job.data.queue, { connection: it.opts.connection, prefix: it.opts.prefix });
    await queue.add('ok', job.data.child, { jobId: job.data.child, parent: { id: job.id, queue: job.queueQualifiedName } });
    await queue.close();
    if (await job.moveToWaitingChildren(token)) throw new lib.WaitingChildrenError();
    return job.getChildrenValues();
  },
};

function processor(me) {
  return async (job, token) => {
    const act = behaviours[job.name];
    if (!act) throw new Error(`no behaviour named ${job.name}`);
    return act(job, token, me);
  };
}

const QUEUE_EVENTS = [
  'added', 'waiting', 'active', 'completed', 'failed', 'delayed', 'progress', 'stalled', 'removed', 'duplicated',
  'deduplicated', 'retries-exhausted', 'drained', 'cleaned', 'paused', 'resumed', 'waiting-children',
];

function watch(kind, handle, it) {
  it.on('error', (error) => say({ of: handle, event: 'error', said: String(error) }));
  if (kind === 'QueueEvents') {
    for (const event of QUEUE_EVENTS) it.on(event, (said) => say({ of: handle, event, said: typeof said === 'string' ? {} : said }));
  }
  if (kind === 'Worker') {
    it.on('active', (job) => say({ of: handle, event: 'active', said: shown(job) }));
    it.on('completed', (job) => say({ of: handle, event: 'completed', said: shown(job) }));
    it.on('failed', (job, error) => say({ of: handle, event: 'failed', said: { id: job && job.id, message: error.message } }));
    it.on('stalled', (id) => say({ of: handle, event: 'stalled', said: { id } }));
    it.on('drained', () => say({ of: handle, event: 'drained', said: {} }));
  }
}

const FIELDS = [
  'id', 'name', 'data', 'opts', 'attemptsMade', 'attemptsStarted', 'stalledCounter', 'delay', 'priority', 'progress',
  'returnvalue', 'failedReason', 'stacktrace', 'timestamp', 'processedOn', 'finishedOn', 'processedBy', 'repeatJobKey',
  'deduplicationId', 'parentKey', 'token', 'deferredFailure',
];

function shown(value) {
  if (Array.isArray(value)) return value.map(shown);
  if (value && value.opts && value.asJSON) return Object.fromEntries(FIELDS.map((name) => [name, value[name]]));
  if (value && value.job && value.children) return { job: shown(value.job), children: value.children.map(shown) };
  if (value && value.job && value.job.asJSON) return { job: shown(value.job) };
  return value === undefined || typeof value === 'function' || (value && value.on && value.emit) ? null : value;
}

function given(value) {
  if (Array.isArray(value)) return value.map(given);
  if (value === null || typeof value !== 'object') return value;
  if ('$error' in value) return new (value.kind ? library(6)[value.kind] : Error)(value.$error);
  if ('$now' in value) return Date.now() + value.$now;
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, given(inner)]));
}

function connection(url) {
  const at = new URL(url);
  return { host: at.hostname, port: Number(at.port), db: Number(at.pathname.slice(1) || 0), maxRetriesPerRequest: null };
}

function found(handle) {
  const known = open.get(handle);
  if (!known) throw new Error(`nothing is open as ${handle}`);
  return known;
}

async function jobOf(handle, id) {
  const { it, lib } = found(handle);
  const job = await lib.Job.fromId(it, id);
  if (!job) throw new Error(`no job ${id}`);
  return job;
}

const operations = {
  // Make a Queue, Worker (`work`: false makes one without a processor), QueueEvents or FlowProducer.
  async open({ kind, handle, queue, url, lib: major, options, work }) {
    const lib = library(major);
    const all = { connection: connection(url), prefix: 'bull', ...given(options || {}) };
    const me = { lib };
    if (kind === 'FlowProducer') me.it = new lib.FlowProducer(all);
    else if (kind === 'Worker') me.it = new lib.Worker(queue, work === false ? null : processor(me), all);
    else me.it = new lib[kind](queue, all);
    open.set(handle, me);
    watch(kind, handle, me.it);
    if (me.it.waitUntilReady) await me.it.waitUntilReady();
  },
  // A method of what is open.
  async call({ handle, method, args }) {
    return shown(await found(handle).it[method](...given(args)));
  },
  // A method of a job, which is read anew.
  async job({ handle, job, method, args }) {
    const there = await jobOf(handle, job);
    return method ? shown(await there[method](...given(args))) : shown(there);
  },
  async logs({ handle, job }) { return (await found(handle).it.getJobLogs(job)).logs; },
  // Let a run of `hold` go on.
  async release({ job }) {
    const go = held.get(job);
    if (!go) throw new Error(`job ${job} is not held`);
    held.delete(job);
    go();
  },
  // bull-board over open queues; answers with its port.
  async board({ handle, queues }) {
    const { createBullBoard } = load('@bull-board/api');
    const { BullMQAdapter } = load('@bull-board/api/bullMQAdapter');
    const { ExpressAdapter } = load('@bull-board/express');
    const adapter = new ExpressAdapter();
    createBullBoard({ queues: queues.map((name) => new BullMQAdapter(found(name).it)), serverAdapter: adapter });
    const app = load('express')();
    app.use('/', adapter.getRouter());
    const server = await new Promise((resolve) => { const made = app.listen(0, '127.0.0.1', () => resolve(made)); });
    const close = () => new Promise((resolve) => { server.close(resolve); server.closeAllConnections(); });
    open.set(handle, { it: { close } });
    return server.address().port;
  },
  async close({ handle, args }) {
    const { it } = found(handle);
    open.delete(handle);
    await it.close(...(args || []));
  },
  // Close everything; workers do not wait for their jobs.
  async reset() {
    held.clear();
    const all = [...open.values()];
    open.clear();
    await Promise.allSettled(all.map(({ it }) => it.close(true)));
  },
};

async function answer(line) {
  const request = JSON.parse(line);
  try {
    say({ id: request.id, ok: (await operations[request.op](request)) ?? null });
  } catch (error) {
    say({ id: request.id, error: String(error && error.message), kind: String(error && error.name) });
  }
}

createInterface({ input: process.stdin }).on('line', answer).on('close', () => process.exit(0));
say({ of: 'driver', event: 'ready', said: { node: process.version, bullmq: [5, 6].map((major) => library(major).version) } });
