-- include: parts/unique.lua
-- Parents and children, as BullMQ has them. A child's hash says `parentKey` and `parent`: id, queueKey, and what its
-- failure does: fpof fails the parent, cpof lets it go on at once, idof and rdof let it go on without this child.
-- A parent's keys, after its own: `:dependencies` children that it waits for, `:processed` their results,
-- `:failed` reasons of failures that it goes on with, `:unsuccessful` children that failed it; and its field `defa`:
-- why it fails as soon as somebody claims it.

-- A queue by what all its keys begin with, without the colon; it may have another prefix.
local function queue_at(key)
  if string.sub(key, 1, #prefix) == prefix then return queue(string.sub(key, #prefix + 1)) end
  return queue(key, key .. ':')
end
-- The job of a key; BullMQ takes what follows the last colon for the id.
local function job_at(key)
  local at, id = string.match(key, '^(.+):([^:]+)$')
  return at and load(queue_at(at), id)
end

-- A child's parent: its key, its job (nil where it is gone), and the policies of this child.
local function parent_of(job)
  local fine, said = pcall(cjson.decode, call('HGET', job.key, 'parent') or '{}')
  if not fine or type(said) ~= 'table' then said = {} end
  return job.parent, job_at(job.parent), said
end

-- A parent need not wait any longer. BullMQ serves it next where it has no priority, and begins its delay now;
-- `anyhow`: it looks at neither.
local function release(job, anyhow)
  local q, delay = job.q, not anyhow and tonumber(call('HGET', job.key, 'delay')) or 0
  job.wf.due, job.wf.parked = now + delay, nil
  if job.wf.n then save(job) end
  if delay > 0 then
    into_delayed(q, job)
    event(q, 'delayed', job.id, 'delay', now + delay)
    return
  end
  if job.group ~= '' then into_group(q, job, place(job))
  elseif job.priority > 0 and not anyhow then
    call('ZADD', q.prioritized, job.priority * 2 ^ 32 + call('INCR', q.p .. 'pc') % 2 ^ 32, job.id)
  else call('RPUSH', list_of(q), job.id) end
  mark(q)
  event(q, 'waiting', job.id, 'prev', 'waiting-children')
  wf_wake('queue ' .. q.name)
end
local function release_waiting(parent)
  if parent and call('ZREM', parent.q.p .. 'waiting-children', parent.id) == 1 then release(parent) end
end
local function release_last(key, parent)
  if call('EXISTS', key .. ':dependencies') == 0 then release_waiting(parent) end
end

-- A child has failed its parent: that fails too, once somebody claims it.
local function doom(parent, child)
  local state, grouped = state_of(parent)
  if state == 'failed' then return end
  call('HSET', parent.key, 'defa', 'child ' .. child.key .. ' failed')
  if state == 'waiting-children' or state == 'delayed' then
    take_out(parent, state, grouped)
    if state == 'delayed' then call('HSET', parent.key, 'delay', 0) end
    release(parent)
  end
end

-- A child has finished: its parent hears of it. `value`: its result (JSON), or the reason of its failure.
local function tell_parent(job, state, value)
  if not job.parent then return end
  local key, parent, policy = parent_of(job)
  local failed = state == 'failed'
  if failed and not (policy.fpof or policy.cpof or policy.idof or policy.rdof) then return end
  if call('SREM', key .. ':dependencies', job.key) == 0 then return end
  if not failed then
    call('HSET', key .. ':processed', job.key, value or 'null')
    release_last(key, parent)
  elseif policy.fpof then
    call('ZADD', key .. ':unsuccessful', now, job.key)
    if parent then doom(parent, job) end
  else
    if policy.cpof or policy.idof then call('HSET', key .. ':failed', job.key, value or '') end
    if policy.cpof then release_waiting(parent) else release_last(key, parent) end
  end
end

-- A failed child runs again: its parent waits for it again, if it still waits at all.
local function back_to_parent(job)
  if not job.parent or call('EXISTS', job.parent) == 0 then return end
  local gone = call('ZREM', job.parent .. ':unsuccessful', job.key) + call('HDEL', job.parent .. ':failed', job.key)
  if gone > 0 then call('SADD', job.parent .. ':dependencies', job.key) end
end

-- A child is deleted: its parent does not wait for it. Returns the parent where it was the last that it waited for.
local function leave_parent(job)
  if not job.parent then return nil end
  local parent = job_at(job.parent)
  if not parent or call('SREM', job.parent .. ':dependencies', job.key) == 0 then return nil end
  if call('EXISTS', job.parent .. ':dependencies') == 1 then return nil end
  if call('ZREM', parent.q.p .. 'waiting-children', parent.id) == 1 then return parent end
end

local function children_of(key)
  local found = call('HKEYS', key .. ':processed')
  for _, list in ipairs({ call('HKEYS', key .. ':failed'), call('ZRANGE', key .. ':unsuccessful', 0, -1),
    call('SMEMBERS', key .. ':dependencies') }) do
    for _, child in ipairs(list) do found[#found + 1] = child end
  end
  return found
end

-- Whether somebody runs one of those that a job waits for, directly or not.
local function runs_below(key, seen)
  for _, child in ipairs(call('SMEMBERS', key .. ':dependencies')) do
    local at, id = string.match(child, '^(.+:)([^:]+)$')
    if call('EXISTS', child .. ':lock') == 1 or (at and call('LPOS', at .. 'active', id)) then return true end
    if not seen[child] then
      seen[child] = true
      if runs_below(child, seen) then return true end
    end
  end
  return false
end

-- Whether one of the jobs that complete may have children that keep it from that: one question for all of them.
local may_be_barred = true
local function look_for_children(dones)
  local keys = {}
  for _, done in ipairs(dones) do
    if done.state == 'completed' then
      local key = prefix .. done.queue .. ':' .. done.id
      keys[#keys + 1], keys[#keys + 2] = key .. ':dependencies', key .. ':unsuccessful'
    end
  end
  may_be_barred = false
  many(keys, function(...) may_be_barred = may_be_barred or call('EXISTS', ...) > 0 end)
end

-- How many children keep a job from completing: that have not finished, and that have failed it; nothing where none do.
local function barred_by(job)
  local pending, failed = call('SCARD', job.key .. ':dependencies'), call('ZCARD', job.key .. ':unsuccessful')
  return pending + failed > 0 and { pending, failed } or nil
end
