-- include: parts/ending.lua
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
  take_out(job, state, grouped)
  job.wf.code, job.wf.failure = 'cancelled', failure
  finish(job, 'failed', reason, 'failedReason', reason)
  event(job.q, 'failed', job.id, 'failedReason', reason, 'prev', state)
  return 'cancelled'
end
