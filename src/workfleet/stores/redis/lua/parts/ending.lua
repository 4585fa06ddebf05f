-- include: parts/unique.lua
-- How a job goes on after a run, and how it leaves.

-- The class of a finished job with a rule of its own, nil of most: housekeeping, or its retention.
local function class_of(job, state)
  local rule = job.wf[state == 'completed' and 'keepc' or 'keepf']
  return rule or (job.wf.hk and 'house') or nil
end
local function kept(q, state, class) return q.ours .. 'kept:' .. state .. ':' .. class .. ':ids' end

-- A slot under a limit is free, which wakes.
local function free_slot(q, group)
  if q.concurrency or (group ~= '' and call('EXISTS', q.ours .. 'queue:limits') == 1) then
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

-- Whether a job that has now completed concerns nobody else: it ran for the first time, and has no key and no rules of
-- its own. Then what `ours` says is put into the text of its `wf`, which is neither read nor written as a whole.
local SPECIAL = { '"key":', '"group":', '"keepc":', '"hk":', '"code":' }
local function is_plain(wf)
  for _, field in ipairs(SPECIAL) do
    if string.find(wf, field, 1, true) then return false end
  end
  return string.find(wf, '^{"') ~= nil and string.find(wf, '}$') ~= nil
end
local function complete_plain(q, done)
  if done.state ~= 'completed' or not done.result or done.reason or done.crashes then return false end
  local key = q.p .. done.id
  local f = call('HMGET', key, 'wf', 'atm', 'deid')
  if not f[1] or f[2] or f[3] or not is_plain(f[1]) then return false end
  if call('LREM', q.active, -1, done.id) == 0 then return false end
  unlock(q, done.id)
  free_slot(q, '')
  call('HSET', key, 'wf', string.sub(f[1], 1, -2) .. ',' .. string.sub(done.ours, 2), 'finishedOn', now_text,
    'atm', done.made, 'returnvalue', done.result)
  call('ZADD', q.p .. 'completed', now_text, done.id)
  event(q, 'completed', done.id, 'returnvalue', done.result, 'prev', 'active')
  q.ended = true
  return true
end

local HISTORY_LIMIT = 100
local function note_end(wf, ours)
  local said = cjson.decode(ours)
  for _, field in ipairs({ 'code', 'settled', 'failure', 'deferrals', 'suspicions' }) do wf[field] = said[field] end
  local history = wf.history or {}
  for _, attempt in ipairs(said.history or {}) do history[#history + 1] = attempt end
  while #history > HISTORY_LIMIT do table.remove(history, 1) end
  wf.history = #history > 0 and history or nil
end

-- What BullMQ shows of the end of a run: fields and values.
local function shown_end(job, done)
  local said = { 'atm', done.made }
  local function say(field, value)
    if value then said[#said + 1], said[#said + 2] = field, value
    elseif job.settled then call('HDEL', job.key, field) end
  end
  say('stc', done.crashes or (job.settled and 0))
  say('returnvalue', done.result)
  say('failedReason', done.reason)
  if done.reason then say('stacktrace', traces_with(job, done.trace)) end
  return said
end

local function put_back(job, done)
  local q, said = job.q, shown_end(job, done)
  if done.state == 'delayed' then
    job.wf.due = now + math.max(done.delay, 0)
    said[#said + 1], said[#said + 2] = 'delay', math.max(done.delay, 0)
  end
  save(job, unpack(said))
  ripen(q)
  if done.state == 'delayed' then put(job, 'active') else enlist(job, 'active') end
  wf_wake('queue ' .. q.name)
end

-- Apply an outcome under its claim. `done`: hint (queue), id, token, state, delay, result (JSON), reason and trace of a
-- failure, made, crashes, and `ours`: what `wf` says from now on (JSON: code, settled, failure, deferrals, suspicions,
-- history with the attempt). Returns whether the claim holds, and whether this is a repeat.
local function settle(done)
  local q = held_in(done.id, done.token, done.hint)
  if q and complete_plain(q, done) then return true, false end
  local job = q and load(q, done.id)
  if not job or call('LREM', q.active, -1, job.id) == 0 then
    job = find(done.id, done.hint)
    return job ~= nil and job.wf.settled == done.token, true
  end
  unlock(q, job.id)
  free_slot(q, job.group)
  note_end(job.wf, done.ours)
  if done.state == 'completed' or done.state == 'failed' then
    finish(job, done.state, unpack(shown_end(job, done)))
    if done.state == 'failed' then event(q, 'failed', job.id, 'failedReason', done.reason or '', 'prev', 'active')
    else event(q, 'completed', job.id, 'returnvalue', done.result or 'null', 'prev', 'active') end
    q.ended = true
  else
    put_back(job, done)
  end
  return true, false
end
