-- Tells other processes what changed, so that who waits there looks. A hint: it may be lost.
-- wf_wake(topic) notes a topic: "queue <name>", "schedules", "cancels".
-- wf_woken(channel, sender) publishes what was noted, once, and returns the topics, for the caller to wake its own process.
-- The message is the sender's id, then each topic on a line of its own. A sender does not hear itself.
local wf_topics, wf_noted = {}, {}
local function wf_wake(topic)
  if not wf_noted[topic] then
    wf_noted[topic] = true
    wf_topics[#wf_topics + 1] = topic
  end
end
local function wf_woken(channel, sender)
  if #wf_topics > 0 then redis.call('PUBLISH', channel, sender .. '\n' .. table.concat(wf_topics, '\n')) end
  return wf_topics
end
