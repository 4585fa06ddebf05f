-- include: parts/line.lua
-- Pauses or resumes a queue, as BullMQ v6: a flag in `meta`, the jobs stay. Asked: queue, paused.
-- Returns 1, 0 when it was so already; and the topics that woke.
local q = queue(asked.queue)
if (q.paused and true or false) == asked.paused then return { 0, {} } end
know(q.name, 0)
if asked.paused then
  call('HSET', q.meta, 'paused', 1)
  call('DEL', q.marker)
else
  call('HDEL', q.meta, 'paused')
  q.paused = false
  if call('EXISTS', q.wait, q.prioritized, q.groups) > 0 then mark(q) end
  local first = call('ZRANGE', q.delayed, 0, 0, 'WITHSCORES')
  if first[2] then call('ZADD', q.marker, math.floor(tonumber(first[2]) / 4096), '1') end
  wf_wake('queue ' .. q.name)
end
call('XADD', q.events, 'MAXLEN', '~', q.max_events, '*', 'event', asked.paused and 'paused' or 'resumed')
return { 1, wf_woken(ARGV[2], ARGV[3]) }
