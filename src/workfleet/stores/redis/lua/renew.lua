-- include: parts/job.lua
-- Renews leases. Asked: claims ({queue, id, token} each), lease_ms. Returns 1 or 0 for each.
local answers = {}
for i, claim in ipairs(asked.claims) do
  local q, id, token = queue(claim[1]), claim[2], claim[3]
  local holds = holds_in(q, id, token)
  if holds then
    local text = call('HGET', q.claims, id)
    local holder, run = string.match(text, '^[^\n]*\n[^\n]*\n([^\n]*)\n(.*)$')
    lock(q, id, token, asked.lease_ms, holder, run)
    call('SREM', q.p .. 'stalled', id)
  end
  answers[i] = holds and 1 or 0
end
for _, q in pairs(queues) do flush(q) end
return answers
