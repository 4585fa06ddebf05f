'use strict';
// A Node program whose BullMQ tells OpenTelemetry what it does. It prints the spans that ended, as one line of JSON.
//
//   argv: the folder of node_modules, the server's port, `add <job> <data>` inside a span "checkout" of its own, `work`
//         one job, or `foreign <metadata>`: add a job with this text in the place of the telemetry's own

const { createRequire } = require('node:module');
const load = createRequire(process.argv[2] + '/');
const { trace } = load('@opentelemetry/api');
const { NodeTracerProvider, SimpleSpanProcessor, InMemorySpanExporter } = load('@opentelemetry/sdk-trace-node');
const { Queue, Worker } = load('bullmq');
const { BullMQOtel } = load('bullmq-otel');

const [port, what, ...said] = process.argv.slice(3);
const exporter = new InMemorySpanExporter();
new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }).register();
const options = { connection: { host: '127.0.0.1', port: Number(port), maxRetriesPerRequest: null }, prefix: 'bull' };
const traced = { ...options, telemetry: new BullMQOtel({ tracerName: 'shop' }) };

async function add([name, data]) {
  const queue = new Queue('media', traced);
  await trace.getTracer('shop').startActiveSpan('checkout', async (span) => {
    await queue.add(name, JSON.parse(data), { jobId: 'from-node' });
    span.end();
  });
  await queue.close();
}

async function foreign([metadata]) {
  const queue = new Queue('media', options);
  await queue.add('resize', 7, { jobId: 'foreign', telemetry: { metadata } });
  await queue.close();
}

async function work() {
  const own = async () => trace.getTracer('shop').startActiveSpan('own', (span) => span.end());
  const worker = new Worker('thumbs', own, traced);
  await new Promise((resolve, reject) => {
    worker.on('completed', resolve);
    worker.on('failed', (_, error) => reject(error));
  });
  await worker.close();
}

const shown = (span) => ({
  name: span.name, trace: span.spanContext().traceId, id: span.spanContext().spanId,
  parent: span.parentSpanContext ? span.parentSpanContext.spanId : null,
});
({ add, work, foreign })[what](said).then(() => {
  process.stdout.write(JSON.stringify(exporter.getFinishedSpans().map(shown)) + '\n');
  process.exit(0);
});
