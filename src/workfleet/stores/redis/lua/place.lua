-- include: parts/claiming.lua
-- What a job waits for. Asked: id. Returns nothing where there is no such job, else how many are ahead of it, the job
-- for which it is parked, and when rates let one more start; false where there is no such thing.
local job = find(asked.id)
if not job then return false end
local q = job.q

-- How many are ready and come before it in its group.
local function ahead()
  local state, grouped = state_of(job)
  if grouped then return call('ZRANK', group_ready(q, job.group), place(job) .. job.id) or 0 end
  local list = list_of(q)
  if state == 'prioritized' then return call('LLEN', list) + call('ZRANK', q.prioritized, job.id) end
  if state ~= 'waiting' then return 0 end
  local at = call('LPOS', list, job.id, 'RANK', -1)
  return at and call('LLEN', list) - 1 - at or 0
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
