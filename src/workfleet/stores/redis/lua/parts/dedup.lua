-- include: parts/line.lua
-- BullMQ's deduplication: `de:<id>` says which job of a queue stands for a deduplication id, until that has finished or
-- for a time; `dn:<id>` is what was added with `keepLastIfActive` while that job ran, and becomes a job at its end.

local function dedup(q, id) return q.p .. 'de:' .. id end

-- A job holds its deduplication id no longer, if it has no time of its own.
local function leave_dedup(job, id)
  local key = dedup(job.q, id)
  if call('GET', key) == job.id and call('PTTL', key) == -1 then call('DEL', key) end
end

-- What stands in `dn:` becomes a job.
local function add_next(q, deid)
  local parked = q.p .. 'dn:' .. deid
  local f = call('HMGET', parked, 'name', 'data', 'opts', 'pk', 'pd', 'pdk', 'rjk', 'jid')
  local fine, opts = pcall(cjson.decode, f[3] or '')
  if not fine or type(opts) ~= 'table' then return end
  local number = call('INCR', q.p .. 'id')
  local id = f[8] or string.format('%.0f', number)
  local delay, priority = tonumber(opts.delay) or 0, tonumber(opts.priority) or 0
  local said = type(opts.de) == 'table' and opts.de or {}
  local ttl = not said.keepLastIfActive and tonumber(said.ttl) or 0
  if ttl > 0 then call('SET', dedup(q, deid), id, 'PX', ttl) else call('SET', dedup(q, deid), id) end
  local key, fields = q.p .. id, { 'deid', deid }
  for name, value in pairs({ parentKey = f[4], parent = f[5], rjk = f[7] }) do
    if value then fields[#fields + 1], fields[#fields + 2] = name, value end
  end
  call('HSET', key, 'name', f[1] or '', 'data', f[2] or 'null', 'opts', f[3], 'timestamp', now_text, 'delay', delay,
    'priority', priority, unpack(fields))
  event(q, 'added', id, 'name', f[1] or '')
  local job = load(q, id)
  job.wf.due = now + delay
  put(job)
  wf_wake('queue ' .. q.name)
  if f[6] then call('SADD', f[6], key) end
  call('DEL', parked)
end

-- A job has finished: what stood for its deduplication id is over.
local function close_dedup(job)
  if not job.deid then return end
  leave_dedup(job, job.deid)
  if call('EXISTS', job.q.p .. 'dn:' .. job.deid) == 1 then add_next(job.q, job.deid) end
end

-- A job of another program is deleted.
local function forget_dedup(job)
  if not job.deid or job.wf.n or call('GET', dedup(job.q, job.deid)) ~= job.id then return end
  call('DEL', dedup(job.q, job.deid), job.q.p .. 'dn:' .. job.deid)
end

-- The job of another program that stands for a deduplication id, nil where none does. Its id alone is known where the
-- job is gone and its time is not over.
local function deduplicated_by(q, deid)
  local key = dedup(q, deid)
  local id = call('GET', key)
  if not id then return nil end
  local job = load(q, id)
  if job and not job.wf.n or not job and call('PTTL', key) ~= -1 then return id end
end
