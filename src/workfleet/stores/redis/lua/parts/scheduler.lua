-- include: parts/line.lua
-- BullMQ's job schedulers. `P:repeat` is a sorted set, id -> time of its next job; `P:repeat:<id>` a hash: name, data and
-- opts of the template, tz, pattern, every, offset, limit, startDate, endDate, and ic, how many jobs it has made.
-- Its next job is `repeat:<id>:<time>`, in whose hash `rjk` is the scheduler's id.

local function born_id(scheduler, at) return 'repeat:' .. scheduler .. ':' .. string.format('%.0f', at) end

-- The scheduler that waits for a job: it goes on when that one is claimed, and would never if it were deleted.
local function awaited_by(q, id)
  if string.sub(id, 1, 7) ~= 'repeat:' then return nil end
  local scheduler = call('HGET', q.p .. id, 'rjk')
  local at = scheduler and call('ZSCORE', q.p .. 'repeat', scheduler)
  if at and id == born_id(scheduler, at) then return scheduler, tonumber(at) end
end
