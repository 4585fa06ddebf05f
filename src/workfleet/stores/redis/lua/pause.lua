-- include: parts/line.lua
-- Pauses or resumes a queue, as BullMQ v6: a flag in `meta`, the jobs stay; as v5 where one is about (`parts/paused.lua`).
-- Asked: queue, paused. Returns 1, 0 when it was so already; and the topics that woke.
local q = queue(asked.queue)
local was = q.paused and true or false
-- One that v6 has resumed may still have jobs where v5 had them.
local left = not asked.paused and call('EXISTS', paused_list(q)) == 1
if was == asked.paused and not left then return { 0, {} } end
know(q.name, 0)
if asked.paused then
  call('HSET', q.meta, 'paused', 1)
  call('DEL', q.marker)
  if as_v5(q) then into_paused(q) end
else
  call('HDEL', q.meta, 'paused')
  q.paused = false
  out_of_paused(q)
  if call('EXISTS', q.wait, q.prioritized, q.groups) > 0 then mark(q) end
  local first = call('ZRANGE', q.delayed, 0, 0, 'WITHSCORES')
  if first[2] then call('ZADD', q.marker, math.floor(tonumber(first[2]) / 4096), '1') end
  wf_wake('queue ' .. q.name)
end
if was ~= asked.paused then
  call('XADD', q.events, 'MAXLEN', '~', q.max_events, '*', 'event', asked.paused and 'paused' or 'resumed')
end
return { was ~= asked.paused and 1 or 0, wf_woken(ARGV[2], ARGV[3]) }
