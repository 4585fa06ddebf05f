-- BullMQ v5 keeps the waiting jobs of a paused queue in a list `paused`, which it renames to `wait` when it resumes, over
-- what is there; v6 leaves them in `wait` and merges what it finds in `paused`. So jobs go where v5 would have them as
-- long as there is such a list, or `meta` says that a v5 was here.

local function paused_list(q) return q.p .. 'paused' end

local function is_old(version)
  local major = string.match(version or '', '^bullmq:(%d+)%.')
  return major ~= nil and tonumber(major) < 6
end

-- Whether jobs of a queue that is paused, or is about to be, belong where v5 has them.
local function as_v5(q) return is_old(q.version) or call('EXISTS', paused_list(q)) == 1 end

-- All of a list, in its order, to the end of another that is served.
local function append(from, to)
  while true do
    local ids = call('LRANGE', from, 0, 999)
    if #ids == 0 then return end
    call('RPUSH', to, unpack(ids))
    call('LTRIM', from, #ids, -1)
  end
end

-- As v6 resumes: what is in `paused` is served first.
local function out_of_paused(q) append(paused_list(q), q.wait) end
local function into_paused(q)
  out_of_paused(q)
  if call('EXISTS', q.wait) == 1 then call('RENAME', q.wait, paused_list(q)) end
end

-- The list that a job goes to which waits. What v6 left in `wait` when it paused goes there first: v5 would rename over it.
local function list_of(q)
  if not q.paused then return q.wait end
  if q.old == nil then
    q.old = as_v5(q)
    if q.old then append(q.wait, paused_list(q)) end
  end
  return q.old and paused_list(q) or q.wait
end
