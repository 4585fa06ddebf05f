-- include: parts/names.lua
-- Where another program has written one of a queue's keys, a call fails before it has changed anything.

-- Ask, once a call, what costs next to nothing and fails where a key is of another kind: of all that a call may change.
-- `plain`: of what the jobs of `parts/plain.lua` come into ("added"), or those of `parts/batch.lua` go through ("run").
-- Lists of these keys would be made anew by every call.
local function sound(q, plain)
  if q.sound == true or plain and q.sound == plain then return end
  q.sound = plain or true
  call('LLEN', q.wait) call('ZCARD', q.marker) call('XLEN', q.events)
  if plain ~= 'run' then call('STRLEN', q.p .. 'id') end
  if plain == 'added' then return end
  call('LLEN', q.active) call('ZCARD', q.prioritized) call('HLEN', q.claims)
  call('ZCARD', q.p .. 'completed') call('SCARD', q.p .. 'stalled')
  if asked.metrics then
    for _, state in ipairs({ 'completed', 'failed' }) do
      call('HLEN', q.p .. 'metrics:' .. state) call('LLEN', q.p .. 'metrics:' .. state .. ':data')
    end
  end
  -- Jobs of groups are among the delayed.
  if call('ZCARD', q.delayed) == 0 and plain and not q.max then return end
  q.sound = true
  for _, part in ipairs({ 'id', 'pc', 'limiter', 'wf:queue:limits' }) do call('STRLEN', q.p .. part) end
  for _, part in ipairs({ 'failed', 'wf:queue:groups', 'wf:queue:starts' }) do call('ZCARD', q.p .. part) end
  for _, part in ipairs({ 'rated', 'house', 'again', 'kept' }) do call('SCARD', q.ours .. 'queue:' .. part) end
  call('HLEN', q.ours .. 'queue:turn')
end
