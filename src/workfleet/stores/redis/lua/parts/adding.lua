-- include: parts/cancelling.lua
-- New jobs: what is there already, who holds the key, and what a newcomer changes.
-- A job as it is asked for: id, queue, name, data, opts, priority, delay, due, after, exp, lifo, group, key, rule,
-- conflict (keep, replace, debounce), hk, keepc, keepf, spec. See `parts/job.lua`.

local function earlier(one, other) return one and other and math.min(one, other) or one or other end

local function insert(said, number)
  know(said.queue, said.hk and 1 or 2)
  local q = queue(said.queue)
  if not q.added then call('HSETNX', q.meta, 'opts.maxLenEvents', q.max_events) end
  q.added = (q.added or 0) + 1
  ripen(q)
  local due = math.max(now + said.delay, said.due)
  local job = {
    q = q, id = said.id, key = q.p .. said.id, created = now, priority = said.priority, lifo = said.lifo,
    group = said.group or '', new = true,
    wf = {
      v = 1, n = number, due = due ~= now and due or nil, delay = said.delay > 0 and said.delay or nil,
      lifo = said.lifo, group = said.group, key = said.key, rule = said.rule, hk = said.hk, after = said.after,
      exp = earlier(said.exp, said.after and now + said.after), keepc = said.keepc, keepf = said.keepf,
      spec = said.spec,
    },
  }
  take_key(job)
  save(job, 'name', said.name, 'data', said.data, 'opts', said.opts, 'timestamp', now_text,
    'delay', math.max(due - now, 0), 'priority', said.priority)
  if said.key then call('HSET', job.key, 'deid', said.key) end
  if said.hk then call('SADD', q.ours .. 'queue:house', said.id) end
  event(q, 'added', said.id, 'name', said.name)
  put(job)
end

-- Where the job is that took a newcomer's payload.
local any_replaced
local function took_by(id)
  if any_replaced == nil then any_replaced = call('EXISTS', base .. 'replaced') == 1 end
  return any_replaced and call('HGET', base .. 'replaced', id)
end

-- A job takes over what a newcomer says, but for its place in the order and its rule.
local function replace(job, said, call_id)
  local wf = job.wf
  wf.spec, wf.keepc, wf.keepf = said.spec, said.keepc, said.keepf
  wf.after, wf.exp = said.after, earlier(said.exp, said.after and now + said.after)
  if not wf.by or not call_id or wf.bycall ~= call_id then
    -- Only the last call can be repeated.
    if wf.by then call('HDEL', base .. 'replaced', unpack(wf.by)) end
    wf.by, wf.bycall = {}, call_id
  end
  wf.by[#wf.by + 1] = said.id
  any_replaced = true
  call('HSET', base .. 'replaced', said.id, job.q.name .. '\n' .. job.id)
  if said.conflict == 'debounce' then
    take_out(job, state_of(job))
    local due = math.max(now + said.delay, said.due)
    wf.due, wf.delay = due, said.delay > 0 and said.delay or nil
    save(job, 'name', said.name, 'data', said.data, 'opts', said.opts, 'delay', math.max(due - now, 0))
    put(job)
  else
    save(job, 'name', said.name, 'data', said.data, 'opts', said.opts)
  end
  wf_wake('queue ' .. job.q.name)
end

-- Whether a job may be gone as soon as it has finished, so that its absence does not say that somebody deleted it.
local function leaves(said)
  local rules = (said.keepc or '') .. (said.keepf or '')
  return string.find(rules, '"count":0}', 1, true) ~= nil
end

-- The job that has this id already. In another queue only one of ours: BullMQ counts queue by queue.
local function namesake(said)
  local other
  for _, name in ipairs(places(said.id)) do
    local job = load(queue(name), said.id)
    if job and name == said.queue then return job end
    if job and job.wf.n then other = job end
  end
  return other
end

local function add(said, number, call_id, before, note, seen)
  local again = seen[said.id]
  local there = namesake(said)
  if not there and before.created[said.id] and leaves(said) then return said.id, not again, false end
  if there then
    local repeated = not again and before.created[there.id] == there.wf.n and there.wf.n ~= nil
    if not repeated then
      event(there.q, 'duplicated', there.id)
      if there.q.name == said.queue then there.q.added = (there.q.added or 0) + 1 end
    end
    return there.id, repeated, false
  end
  local took = took_by(said.id)
  if took then
    local name, id = string.match(took, '^([^\n]*)\n(.*)$')
    there = load(queue(name), id)
    if there then return id, false, not again and call_id ~= nil and there.wf.bycall == call_id end
    call('HDEL', base .. 'replaced', said.id)
  end
  local holding, at
  if said.key then
    free_of_expired(said.key)
    holding, at = holder(said.key, queue(said.queue))
  end
  if not holding then
    insert(said, number)
    note.created[said.id] = number
    return said.id, true, false
  end
  there = load(at, holding)
  event(at, 'deduplicated', holding, 'deduplicationId', said.key, 'deduplicatedJobId', said.id)
  -- The holder of a window may be gone, and its id another job's.
  local gone = not there or not there.wf.n or there.wf.key ~= said.key
  if said.conflict == 'keep' or gone or there.started or there.finished then return holding, false, false end
  replace(there, said, call_id)
  return holding, false, true
end

-- What the same call did before: whom it created, id -> number. Where that were all of them, in a row, it says so.
local function note_of(call_id) return base .. 'call:' .. call_id .. ':v' end
local function done_before(jobs, call_id)
  local kept = call_id and call('GET', note_of(call_id))
  local before = kept and cjson.decode(kept) or {}
  before.created = before.created or {}
  if before.count == #jobs then
    for i, said in ipairs(jobs) do before.created[said.id] = before.first + i - 1 end
  end
  return before
end

-- Add jobs. Returns for each: its id or whose place it takes, 1 where created, 1 where it replaced what was there.
local function add_all(jobs, call_id)
  local answers, seen, note = {}, {}, { created = {} }
  for _, said in ipairs(jobs) do sound(queue(said.queue)) end
  local before = done_before(jobs, call_id)
  local number = call('INCRBY', base .. 'number', #jobs) - #jobs
  for i, said in ipairs(jobs) do
    local id, created, replaced = add(said, number + i, call_id, before, note, seen)
    seen[said.id], seen[id] = true, true
    answers[i] = { id, created and 1 or 0, replaced and 1 or 0 }
  end
  for _, q in pairs(queues) do
    -- BullMQ counts every job that was added, and tools find queues by this key.
    if q.added then call('INCRBY', q.p .. 'id', q.added) end
    q.added = nil
  end
  if call_id then
    for id, n in pairs(before.created) do note.created[id] = note.created[id] or n end
    call('SET', note_of(call_id), cjson.encode(note), 'PX', NOTE_MS)
  end
  -- Also of what was there already: a repeat may mean that the first wake was lost too.
  for _, said in ipairs(jobs) do wf_wake('queue ' .. said.queue) end
  return answers
end
