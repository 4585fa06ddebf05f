-- How many jobs finished in each minute, as BullMQ's workers count them when asked: `P:metrics:<state>` is a hash (count,
-- prevTS, prevCount), its `…:data` a list of counts, the newest minute first. `asked.metrics`: how many are kept.

local function count_end(q, state, count)
  if not asked.metrics then return end
  local ended = q.counted or {}
  q.counted = ended
  ended[state] = (ended[state] or 0) + count
end

-- A minute is written when the first job after it ends; those in which none ended are 0.
local function write_minutes(key, ended)
  local count = call('HINCRBY', key, 'count', ended) - ended
  local said = call('HMGET', key, 'prevTS', 'prevCount')
  if not said[1] then
    call('HSET', key, 'prevTS', now_text, 'prevCount', 0)
    return
  end
  local minutes = math.min(math.floor(now / 60000) - math.floor(tonumber(said[1]) / 60000), asked.metrics)
  if minutes <= 0 then return end
  local points = { count - (tonumber(said[2]) or 0) }
  for i = 2, minutes do points[i] = 0 end
  many(points, function(...) call('LPUSH', key .. ':data', ...) end)
  call('LTRIM', key .. ':data', 0, asked.metrics - 1)
  call('HSET', key, 'prevCount', count, 'prevTS', now_text)
end

local function write_metrics(q)
  for state, ended in pairs(q.counted or {}) do write_minutes(q.p .. 'metrics:' .. state, ended) end
  q.counted = nil
end
