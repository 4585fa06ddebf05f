-- include: parts/job.lua
-- Which jobs are to be cancelled. Asked: claims ({queue, id, token} each). Returns 1 or 0 for each.
local answers = {}
for i, claim in ipairs(asked.claims) do
  local q = queue(claim[1])
  local job = holds_in(q, claim[2], claim[3]) and load(q, claim[2])
  answers[i] = job and job.wf.cancel and 1 or 0
end
return answers
