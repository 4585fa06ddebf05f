-- include: parts/family.lua
-- include: parts/metrics.lua
-- How a job goes on after a run, and how it leaves.

-- What BullMQ's options say of the retention of a job that another program has added, as a rule of ours: nil where they
-- say nothing. `false`, a count below 0, and neither an age nor a count: for ever.
local FOR_EVER = '{}'
local function rule_in_options(job, state)
  local fine, opts = pcall(cjson.decode, call('HGET', job.key, 'opts') or '')
  local said = fine and type(opts) == 'table' and opts[state == 'completed' and 'removeOnComplete' or 'removeOnFail']
  if said == true then said = { count = 0 }
  elseif said == false then said = {}
  elseif type(said) == 'number' then said = { count = said } end
  if type(said) ~= 'table' then return nil end
  local age, count, rule = tonumber(said.age), tonumber(said.count), {}
  if age then rule[1] = string.format('"age_ms":%.0f', age * 1000) end
  if count and count >= 0 then rule[#rule + 1] = string.format('"count":%.0f', count) end
  return #rule > 0 and '{' .. table.concat(rule, ',') .. '}' or FOR_EVER
end

-- The class of a finished job with a rule of its own, nil of most: housekeeping, or its retention.
local function class_of(job, state)
  if not job.wf.n then return rule_in_options(job, state) end
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

-- A job finishes, with a result (JSON) or the reason of its failure: its key, and who waits for it, are free.
local function let_go(job, state, value)
  close_dedup(job)
  close_key(job)
  tell_parent(job, state, value)
end
local function finish(job, state, value, ...)
  job.wf.parked = nil
  save(job, 'finishedOn', now, ...)
  call('ZADD', job.q.p .. state, now, job.id)
  local class = class_of(job, state)
  if class then
    call('SADD', job.q.ours .. 'queue:kept', state .. '\n' .. class)
    call('ZADD', kept(job.q, state, class), now, job.id)
  end
  if state == 'failed' then call('HDEL', job.key, 'defa') end
  let_go(job, state, value)
end

local function unclass(job, state)
  local class = class_of(job, state)
  if class then call('ZREM', kept(job.q, state, class), job.id) end
end

-- All that belongs to a job but its places in the queue's keys.
local function erase(job)
  if job.wf.by then call('HDEL', base .. 'replaced', unpack(job.wf.by)) end
  if job.wf.hk then call('SREM', job.q.ours .. 'queue:house', job.id) end
  local key = job.key
  call('DEL', key, key .. ':lock', key .. ':logs', key .. ':dependencies', key .. ':processed', key .. ':failed',
    key .. ':unsuccessful')
end

-- What was settled under a token and is gone at once is known for a while, for the repeat of the call.
local function erased(name, token) return base .. 'erased:' .. token .. ':' .. name .. ':v' end
local function know_erased(q, token, ids)
  local key = erased(q.name, token)
  many(ids, function(...) call('SADD', key, ...) end)
  call('PEXPIRE', key, KNOWN_MS)
end

-- Whether a job is not kept at all when it finishes so. One that cannot be read is, for somebody to see.
local function keeps_none(job, state, code)
  local class = code ~= 'undecodable' and not job.broken and class_of(job, state)
  return class and string.find(class, '"count":0}', 1, true) ~= nil
end

-- A job finishes and is gone in the same step, of which BullMQ says nothing in the events.
local function finish_for_good(job, state, value, token)
  let_go(job, state, value)
  erase(job)
  know_erased(job.q, token, { job.id })
  local parent = leave_parent(job)
  if parent then release(parent, true) end
end

-- A job in any state but active is gone, with all that belongs to it. `how`: 'pruned'; 'purged', which purges a parent
-- in the same queue that waited for nobody else; nothing where it is deleted.
local function discard(job, state, grouped, how)
  take_out(job, state, grouped)
  if how ~= 'pruned' then forget_dedup(job) end
  if state == 'completed' or state == 'failed' then unclass(job, state)
  else close_key(job) end
  erase(job)
  event(job.q, 'removed', job.id, 'prev', state == 'waiting' and 'wait' or state)
  local parent = leave_parent(job)
  if not parent then return end
  if how == 'purged' and parent.q == job.q then discard(parent, 'waiting-children', false, how)
  else release(parent, true) end
end

-- A job is deleted, with all its children that nobody runs.
local function discard_tree(job, state, grouped)
  local children = children_of(job.key)
  discard(job, state, grouped)
  for _, key in ipairs(children) do
    local child = job_at(key)
    local at, in_group
    if child then at, in_group = state_of(child) end
    if child and at ~= 'active' then discard_tree(child, at, in_group) end
  end
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

-- As BullMQ: a job that says how often it may be tried, or nothing of it, and that was tried as often.
local function is_exhausted(job, done)
  local fine, opts = pcall(cjson.decode, call('HGET', job.key, 'opts') or '{}')
  local attempts = fine and type(opts) == 'table' and tonumber(opts.attempts) or 0
  return tonumber(done.made) >= attempts
end

-- Whether this is the repeat of a settlement that was applied.
local function was_settled(done)
  local job, token = find(done.id, done.queue), done.token
  if job then
    if job.wf.settled == token then return true end
    local f = call('HMGET', job.key, 'finishedOn', 'wfd')
    if f[1] and f[2] and string.match(f[2], '^' .. f[1] .. ' %d+ (.*)$') == token then return true end
  end
  return call('SISMEMBER', erased(done.queue, token), done.id) == 1
end

-- Apply an outcome under its claim. `done`: queue, id, token, state, delay, result (JSON), reason and trace of a
-- failure, made, crashes, and `ours`: what `wf` says from now on (JSON: code, settled, failure, deferrals, suspicions,
-- history with the attempt). Returns whether the claim holds, whether this is a repeat, and what `barred_by` says of a job
-- that does not complete because of it, which goes on being active.
local function settle(done)
  local q = queue(done.queue)
  local job = holds_in(q, done.id, done.token) and load(q, done.id)
  local barred = job and done.state == 'completed' and may_be_barred and barred_by(job)
  if barred and call('LPOS', q.active, job.id) then return false, true, barred end
  if not job or call('LREM', q.active, -1, job.id) == 0 then
    return was_settled(done), true
  end
  unlock(q, job.id)
  free_slot(q, job.group)
  note_end(job.wf, done.ours)
  if done.state == 'completed' or done.state == 'failed' then
    local value, gone = done.result or done.reason, keeps_none(job, done.state, job.wf.code)
    local exhausted = done.state == 'failed' and is_exhausted(job, done)
    if gone then finish_for_good(job, done.state, value, done.token)
    else finish(job, done.state, value, unpack(shown_end(job, done))) end
    count_end(q, done.state, 1)
    if done.state == 'failed' then
      event(q, 'failed', job.id, 'failedReason', done.reason or '', 'prev', 'active')
      if exhausted then event(q, 'retries-exhausted', job.id, 'attemptsMade', done.made) end
    else
      event(q, 'completed', job.id, 'returnvalue', done.result or 'null', 'prev', 'active')
    end
    q.ended = true
  else
    put_back(job, done)
  end
  return true, false
end
