-- include: parts/unique.lua
-- How a job goes on after a run, and how it leaves.

-- The class of a finished job with a rule of its own, nil of most: housekeeping, or its retention.
local function class_of(job, state)
  local rule = job.wf[state == 'completed' and 'keepc' or 'keepf']
  return rule or (job.wf.hk and 'house') or nil
end
local function kept(q, state, class) return q.ours .. 'kept:' .. state .. ':' .. class .. ':ids' end

-- It is nobody's any more. A slot that this frees under a limit wakes.
local function let_go(job)
  local q = job.q
  call('LREM', q.active, -1, job.id)
  call('DEL', job.key .. ':lock')
  call('HDEL', q.claims, job.id)
  call('SREM', q.p .. 'stalled', job.id)
  if q.concurrency or (job.group ~= '' and call('EXISTS', q.ours .. 'queue:limits') == 1) then
    wf_wake('queue ' .. q.name)
    mark(q)
  end
end

-- A job finishes: its key, and who is parked behind it, are free.
local function finish(job, state, ...)
  job.wf.parked = nil
  save(job, 'finishedOn', now, ...)
  call('ZADD', job.q.p .. state, now, job.id)
  local class = class_of(job, state)
  if class then
    call('SADD', job.q.ours .. 'queue:kept', state .. '\n' .. class)
    call('ZADD', kept(job.q, state, class), now, job.id)
  end
  if job.deid then
    local dedup = job.q.p .. 'de:' .. job.deid
    if call('GET', dedup) == job.id and call('PTTL', dedup) == -1 then call('DEL', dedup) end
  end
  close_key(job)
end

local function unclass(job, state)
  local class = class_of(job, state)
  if class then call('ZREM', kept(job.q, state, class), job.id) end
end

-- A job in any state but active is gone, with all that belongs to it.
local function discard(job, state, grouped)
  take_out(job, state, grouped)
  if state == 'completed' or state == 'failed' then unclass(job, state)
  else close_key(job) end
  if job.wf.by then call('HDEL', base .. 'replaced', unpack(job.wf.by)) end
  if job.wf.hk then call('SREM', job.q.ours .. 'queue:house', job.id) end
  local key = job.key
  call('DEL', key, key .. ':lock', key .. ':logs', key .. ':dependencies', key .. ':processed', key .. ':failed',
    key .. ':unsuccessful')
  event(job.q, 'removed', job.id, 'prev', state)
end

-- A failed or retried run, as BullMQ shows it: the message, and the newest tracebacks.
local KEPT_TRACES = 10
local function traces_with(job, trace)
  local fine, traces = pcall(cjson.decode, call('HGET', job.key, 'stacktrace') or '[]')
  if not fine or type(traces) ~= 'table' then traces = {} end
  traces[#traces + 1] = trace
  while #traces > KEPT_TRACES do table.remove(traces, 1) end
  return cjson.encode(traces)
end

-- Apply an outcome under its claim. `done`: hint (queue), id, token, state, code, delay, result, failure (JSON), reason,
-- trace, made, crashes, deferrals, suspicions, attempt (JSON). False for a stale claim.
local HISTORY_LIMIT = 100
local function settle(done)
  local q = held_in(done.id, done.token, done.hint)
  local job = q and load(q, done.id)
  if not job then
    job = find(done.id, done.hint)
    return job ~= nil and job.wf.settled == done.token
  end
  let_go(job)
  local wf = job.wf
  wf.code, wf.failure, wf.settled = done.code, done.failure, done.token
  wf.deferrals = done.deferrals > 0 and done.deferrals or nil
  wf.suspicions = done.suspicions > 0 and done.suspicions or nil
  if done.attempt then
    wf.history = wf.history or {}
    wf.history[#wf.history + 1] = done.attempt
    while #wf.history > HISTORY_LIMIT do table.remove(wf.history, 1) end
  end
  local said = { 'atm', done.made }
  local function say(field, value) said[#said + 1], said[#said + 2] = field, value end
  if done.crashes > 0 or call('HEXISTS', job.key, 'stc') == 1 then say('stc', done.crashes) end
  if done.result then say('returnvalue', done.result) else call('HDEL', job.key, 'returnvalue') end
  if done.failure then
    say('failedReason', done.reason)
    say('stacktrace', traces_with(job, done.trace))
  else
    call('HDEL', job.key, 'failedReason')
  end
  if done.state == 'completed' then
    finish(job, 'completed', unpack(said))
    event(q, 'completed', job.id, 'returnvalue', done.result or 'null', 'prev', 'active')
    q.ended = true
  elseif done.state == 'failed' then
    finish(job, 'failed', unpack(said))
    event(q, 'failed', job.id, 'failedReason', done.reason or '', 'prev', 'active')
    q.ended = true
  else
    if done.state == 'delayed' then
      wf.due = now + math.max(done.delay, 0)
      say('delay', math.max(done.delay, 0))
    end
    save(job, unpack(said))
    if done.state == 'delayed' and done.delay <= 0 or done.state ~= 'delayed' then ripen(q) end
    if done.state == 'delayed' then put(job, 'active') else enlist(job, 'active') end
    wf_wake('queue ' .. q.name)
  end
  return true
end
