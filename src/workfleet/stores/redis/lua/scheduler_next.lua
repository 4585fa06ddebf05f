-- include: parts/scheduler.lua
-- Makes the next jobs of BullMQ's job schedulers, as v6 does when a worker gets the one before. Asked: steps, each with
-- queue, id (of the job that is claimed), scheduler, next (its time; nothing where `every` says it), opts of the next
-- job, legacy (the scheduler's id looks like a repeatable job's of v4, which has no `ic`).
-- Returns the ids of the new jobs, false where there is none, and the topics that woke.

-- One interval on; where that is missed already, the first time on the grid that is not.
local function after(prev, every, offset)
  local at = prev + every
  if at < now then
    at = math.floor(now / every) * every + offset
    if at <= now then at = at + every end
  end
  return math.floor(at)
end

local function make(q, id, name, data, scheduler, opts, due)
  local delay = math.max(due - now, 0)
  opts.delay, opts.jobId = delay, id
  local job = {
    q = q, id = id, key = q.p .. id, created = now, priority = opts.priority or 0, lifo = opts.lifo, group = '',
    wf = { due = delay > 0 and due or nil },
  }
  call('HSETNX', q.meta, 'opts.maxLenEvents', q.max_events)
  call('INCR', q.p .. 'id')
  call('HSET', job.key, 'name', name, 'data', data, 'opts', cjson.encode(opts), 'timestamp', now_text, 'delay', delay,
    'priority', job.priority, 'rjk', scheduler)
  if type(opts.de) == 'table' and opts.de.id then call('HSET', job.key, 'deid', opts.de.id) end
  event(q, 'added', id, 'name', name)
  put(job)
  wf_wake('queue ' .. q.name)
end

local function advance(step)
  local q = queue(step.queue)
  local scheduler, prev = awaited_by(q, step.id)
  if scheduler ~= step.scheduler then return false end
  local key = q.p .. 'repeat:' .. scheduler
  local said = call('HMGET', key, 'name', 'data', 'every', 'offset', 'ic')
  if step.legacy and not said[5] then return false end
  local of_job = step.opts['repeat']
  local every, due = tonumber(said[3] or of_job.every), step.next
  if every then due = after(prev, every, tonumber(said[4] or of_job.offset or 0)) end
  local id = born_id(scheduler, due)
  if call('EXISTS', q.p .. id) == 1 then
    event(q, 'duplicated', id)
    return false
  end
  call('ZADD', q.p .. 'repeat', due, scheduler)
  call('HINCRBY', key, 'ic', 1)
  make(q, id, said[1] or scheduler, said[2] or '{}', scheduler, step.opts, due)
  return id
end

local made = {}
for i, step in ipairs(asked.steps) do made[i] = advance(step) end
return { made, wf_woken(ARGV[2], ARGV[3]) }
