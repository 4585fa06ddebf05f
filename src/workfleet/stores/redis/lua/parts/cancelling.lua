-- include: parts/ending.lua
-- Ends of jobs that nobody runs.

-- A job that nobody runs fails, with a failure (JSON) and the reason in it.
local function fail_unrun(job, state, grouped, code, failure, reason)
  take_out(job, state, grouped)
  job.wf.code, job.wf.failure = code, failure
  finish(job, 'failed', reason, 'failedReason', reason)
  event(job.q, 'failed', job.id, 'failedReason', reason, 'prev', state)
end

-- Cancels a job with a failure (JSON) and the reason in it: "missing", "finished", "asked" (it runs, and its worker is
-- told), or "cancelled" (it has failed, unrun).
local function cancel(job, failure, reason)
  if not job then return 'missing' end
  local state, grouped = state_of(job)
  if state == 'completed' or state == 'failed' then return 'finished' end
  if state == 'active' then
    job.wf.cancel = true
    save(job)
    wf_wake('cancels')
    return 'asked'
  end
  fail_unrun(job, state, grouped, 'cancelled', failure, reason)
  return 'cancelled'
end

-- A holder of a unique key that will never start fails: see `UniqueRule`.
local EXPIRED = 'it was not started before it expired'
local function free_of_expired(key)
  local name, id = string.match(call('GET', base .. 'hold:' .. key .. ':v') or '', '^0 ([^\n]*)\n(.*)$')
  local job = name and load(queue(name), id)
  -- Where another program deleted the holder, its id may be another job's.
  if not job or job.wf.key ~= key or job.finished or not job.wf.exp or job.wf.exp > now then return end
  local state, grouped = state_of(job)
  local fine, spec = pcall(cjson.decode, job.wf.spec or '{}')
  if state == 'active' or (fine and type(spec) == 'table' and spec.schedule) then return end
  fail_unrun(job, state, grouped, 'expired', cjson.encode({ code = 'expired', message = EXPIRED }), EXPIRED)
end
