-- include: parts/job.lua
-- Renews leases. Asked: claims ({queue or "", id, token} each), lease_ms. Returns 1 or 0 for each.
local answers = {}
for i, claim in ipairs(asked.claims) do
  local id, token = claim[2], claim[3]
  local q = held_in(id, token, claim[1])
  if q then
    local text = call('HGET', q.claims, id)
    local holder, group = string.match(text, '^[^\n]*\n[^\n]*\n([^\n]*)\n(.*)$')
    lock(q, id, token, asked.lease_ms, holder, group)
    call('SREM', q.p .. 'stalled', id)
  end
  answers[i] = q and 1 or 0
end
for _, q in pairs(queues) do flush(q) end
return answers
