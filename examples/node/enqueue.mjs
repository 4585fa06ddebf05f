// Hands a photo to the Python worker of examples/media: node enqueue.mjs photo.jpg
import { cpSync } from 'node:fs';
import { basename, join } from 'node:path';
import { Queue, QueueEvents } from 'bullmq';

const connection = { url: process.env.REDIS_URL ?? 'redis://localhost:6379/0' };
// From the first event on: without lastEventId it would miss what is over before it listens.
const [queue, events] = [new Queue('photos', { connection }), new QueueEvents('photos', { connection, lastEventId: '0' })];
const photo = basename(process.argv[2]);
cpSync(process.argv[2], join(process.env.INBOX ?? join(import.meta.dirname, '../media/inbox'), photo));
const job = await queue.add('arrived', photo, { attempts: 3, backoff: { type: 'exponential', delay: 1000 } });
console.log(photo, 'is on its way:', await job.waitUntilFinished(events, 30_000));
await Promise.all([queue.close(), events.close()]);
