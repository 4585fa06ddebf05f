-- include: parts/job.lua
-- Sets the progress and appends log lines under a claim. Asked: claim ({queue, id, token}), progress (JSON, or
-- nothing), lines, call (an id, or nothing). Returns 1, 0 for a stale claim.
local q, id = queue(asked.claim[1]), asked.claim[2]
local job = holds_in(q, id, asked.claim[3]) and load(q, id)
if not job then return 0 end
if asked.call and job.wf.report == asked.call then return 1 end
job.wf.report = asked.call
save(job)
if asked.progress then
  call('HSET', job.key, 'progress', asked.progress)
  event(q, 'progress', id, 'data', asked.progress)
end
for _, line in ipairs(asked.lines) do call('RPUSH', job.key .. ':logs', line) end
return 1
