-- include: parts/claiming.lua
-- What a job waits for. Asked: id, queue (or nothing). Returns nothing where there is no such job, else how many are
-- ahead of it, the job for which it is parked, and when rates let one more start; false where there is no such thing.
local job = find(asked.id, asked.queue)
if not job then return false end
local q = job.q

-- What is due becomes ready at the next claim, so many at once; it is not made so here.
local MOST_DUE, TILL = 1000, (now + 1) * 4096 - 1

-- How many are ready and come before it in its group, where it is ready itself.
local function ready_before(state, grouped)
  if grouped then return call('ZRANK', group_ready(q, job.group), place(job) .. job.id) or 0 end
  local list = list_of(q)
  if state == 'prioritized' then return call('LLEN', list) + call('ZRANK', q.prioritized, job.id) end
  local at = call('LPOS', list, job.id, 'RANK', -1)
  return at and call('LLEN', list) - 1 - at or 0
end

-- The same of one that is due: how many are before the place that it will be put to.
local function ready_before_due()
  local mine = place(job)
  if job.group ~= '' then return call('ZLEXCOUNT', group_ready(q, job.group), '-', '(' .. mine .. job.id) end
  local list = list_of(q)
  local length = call('LLEN', list)
  if job.priority > 0 then return length + (before_in(q, job.priority, mine)) end
  return length - after_in(q, list, length, mine)
end

-- How many are due and will be put before it.
local function due_before()
  local count, mine = 0, place(job)
  for _, id in ipairs(call('ZRANGEBYSCORE', q.delayed, '-inf', TILL, 'LIMIT', 0, MOST_DUE)) do
    local other = id ~= job.id and load(q, id)
    if other and other.group == job.group and place(other) < mine then count = count + 1 end
  end
  return count
end

local function ahead()
  local state, grouped = state_of(job)
  if state == 'waiting' or state == 'prioritized' then return ready_before(state, grouped) + due_before() end
  local score = state == 'delayed' and tonumber(call('ZSCORE', q.delayed, job.id))
  if not score or score > TILL then return 0 end
  -- Those that further claims make ready before it are counted, whichever they are.
  return ready_before_due() + due_before() + math.max(call('ZRANK', q.delayed, job.id) - MOST_DUE, 0)
end

local function rival()
  if not job.wf.parked then return false end
  for _, other in ipairs(of_key(job.wf.key)) do
    if other.started and other.id ~= job.id then return other.id end
  end
  return false
end

local starts = free_ms(q, WHOLE)
if starts and job.group ~= '' then
  local own = free_ms(q, job.group)
  starts = own and math.max(starts, own)
end
return { ahead(), rival(), starts or false }
