-- include: parts/adding.lua
-- include: parts/batch.lua
-- include: parts/due.lua
-- Settles many jobs under their claims, adds what follows from them, and claims many.
-- Asked: plain (lists for `complete_many` in `parts/batch.lua`), done (see `settle` in `parts/ending.lua`; `follow_up`:
-- jobs), claim (see `parts/batch.lua`) or nothing, metrics (see `parts/metrics.lua`) or nothing.
-- Returns: 1 or 0 for each settlement, the rows that were claimed, the topics that woke, the time, and where less was
-- claimed than asked for what `due_of` says of the queues; then the jobs that do not complete because of their children:
-- which settlement, and what `barred_by` says; then of which settlement what was left out of its follow_up: places.
for _, list in ipairs(asked.plain) do sound(queue(list[1]), 'run') end
for _, done in ipairs(asked.done) do sound(queue(done.queue)) end
for _, want in ipairs(asked.claim and asked.claim.wants or {}) do sound(queue(want[1]), 'run') end
local applied, barred, left_out = {}, {}, {}
local function apply(done)
  local holds, repeated, children = settle(done)
  applied[#applied + 1] = holds and 1 or 0
  if children then barred[#barred + 1] = { #applied, children[1], children[2] } end
  return holds and not repeated, holds and repeated
end
for _, list in ipairs(asked.plain) do
  local rest, count = complete_many(list)
  if next(rest) then sound(queue(list[1])) end
  for i = 1, count do
    if rest[i] then apply(rest[i]) else applied[#applied + 1] = 1 end
  end
end
-- What a run made. Its result names who stands for that: where a unique key was held, the holder.
local function follow(done)
  local stand, others, out = {}, false, {}
  for i, answer in ipairs(add_all(done.follow_up)) do
    stand[i] = answer[1]
    others = others or answer[1] ~= done.follow_up[i].id
    if answer[2] ~= 1 then out[#out + 1] = i end
  end
  if #out > 0 then left_out[#left_out + 1] = { #applied, out } end
  local job = others and find(done.id, done.queue)
  if not job then return end
  call('HSET', job.key, 'returnvalue', cjson.encode(stand))
  if job.parent and call('HEXISTS', job.parent .. ':processed', job.key) == 1 then
    call('HSET', job.parent .. ':processed', job.key, cjson.encode(stand))
  end
end
-- The same of a repeat, as far as the result says.
local function look_after(done)
  local job, out = find(done.id, done.queue), {}
  local fine, stand = pcall(cjson.decode, job and call('HGET', job.key, 'returnvalue') or '[]')
  if not fine or type(stand) ~= 'table' then return end
  for i, made in ipairs(done.follow_up) do
    if type(stand[i]) == 'string' and stand[i] ~= made.id then out[#out + 1] = i end
  end
  if #out > 0 then left_out[#left_out + 1] = { #applied, out } end
end
look_for_children(asked.done)
for _, done in ipairs(asked.done) do
  local new, repeated = apply(done)
  if done.follow_up then
    if new then follow(done) elseif repeated then look_after(done) end
  end
end
for _, q in pairs(queues) do
  flush(q)
  write_metrics(q)
end
local rows = {}
if asked.claim then rows = claim() end
for _, q in pairs(queues) do leave(q) end
local due = false
if asked.claim and #rows < (asked.claim.total or math.huge) then
  local names = {}
  for i, want in ipairs(asked.claim.wants) do names[i] = want[1] end
  due = due_of(names)
end
return { applied, rows, wf_woken(ARGV[2], ARGV[3]), now, due, barred, left_out }
