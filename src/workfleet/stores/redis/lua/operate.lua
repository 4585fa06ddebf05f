-- include: parts/cancelling.lua
-- include: parts/scheduler.lua
-- What an operator does to jobs. Asked: what (cancel, retry, promote, delete), ids, queue (or nothing); for cancel: failure (JSON), reason.
-- Returns an answer for each id (cancel: a word; else 1 or 0), and the topics that woke.
local operations = {}

function operations.cancel(job) return cancel(job, asked.failure, asked.reason) end

function operations.retry(job)
  if not job or state_of(job) ~= 'failed' then return 0 end
  local wf = job.wf
  if wf.key then free_of_expired(wf.key) end
  local holding = wf.key and holder(wf.key, job.q)
  if holding and holding ~= job.id then return 0 end
  ripen(job.q)
  call('ZREM', job.q.p .. 'failed', job.id)
  unclass(job, 'failed')
  for _, field in ipairs({ 'exp', 'deferrals', 'suspicions', 'cancel', 'code', 'failure', 'report' }) do
    wf[field] = nil
  end
  wf.due, job.started, job.finished = now, nil, nil
  take_key(job)
  call('HDEL', job.key, 'processedOn', 'finishedOn', 'failedReason', 'returnvalue', 'progress', 'stc', 'pb')
  save(job, 'atm', 0, 'delay', 0)
  put(job, 'failed')
  back_to_parent(job)
  wf_wake('queue ' .. job.q.name)
  return 1
end

function operations.promote(job)
  if not job or state_of(job) ~= 'delayed' or job.wf.parked then return 0 end
  ripen(job.q)
  if state_of(job) ~= 'delayed' then return 0 end
  take_out(job, 'delayed')
  job.wf.due = now
  save(job, 'delay', 0)
  put(job, 'delayed')
  wf_wake('queue ' .. job.q.name)
  return 1
end

function operations.delete(job)
  if not job then return 0 end
  local state, grouped = state_of(job)
  if state == 'active' or runs_below(job.key, {}) or awaited_by(job.q, job.id) then return 0 end
  discard_tree(job, state, grouped)
  return 1
end

local answers = {}
for i, id in ipairs(asked.ids) do
  local job = find(id, asked.queue)
  if job then sound(job.q) end
  answers[i] = operations[asked.what](job)
end
return { answers, wf_woken(ARGV[2], ARGV[3]) }
