-- Tells other processes what changed, so that who waits there looks. A hint: it may be lost.
-- wf_wake(topic) notes a topic: "queue <name>", "schedules", "cancels". wf_unwake(topic) takes it back.
-- wf_woken(channel, sender) publishes what was noted, once, and returns the topics, for the caller to wake its own process.
-- The message is the sender's id, then each topic on a line of its own. A sender does not hear itself. Queues are not
-- published: their marker wakes one who waits for them, not all.
local wf_topics, wf_noted = {}, {}
local function wf_wake(topic)
  if not wf_noted[topic] then
    wf_noted[topic] = true
    wf_topics[#wf_topics + 1] = topic
  end
end
local function wf_unwake(topic)
  for i, noted in ipairs(wf_topics) do
    if noted == topic then table.remove(wf_topics, i) end
  end
  wf_noted[topic] = nil
end
local function wf_woken(channel, sender)
  local told = { sender }
  for _, topic in ipairs(wf_topics) do
    if string.sub(topic, 1, 6) ~= 'queue ' then told[#told + 1] = topic end
  end
  if #told > 1 then redis.call('PUBLISH', channel, table.concat(told, '\n')) end
  return wf_topics
end
