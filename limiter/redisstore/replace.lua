-- Replaces a value if no other process has changed it since it was read.
--
-- KEYS[1]  the subject
-- KEYS[2]  for a settlement with an ID, as in settle.lua
-- ARGV[1]  the value read, empty if there was none
-- ARGV[2]  the new value
-- ARGV[3]  time to live in ms
-- ARGV[4]  the ID, ARGV[5]  size of a full KEYS[2], ARGV[6]  its time to live in ms; only with KEYS[2]
--
-- Returns 1, or the present value in an array. If KEYS[2] has the ID or is full, it returns -1 or -2 and
-- changes nothing.
local ids
if KEYS[2] then
  ids = redis.call('GET', KEYS[2]) or ''
  for i = 1, #ids, 8 do
    if string.sub(ids, i, i + 7) == ARGV[4] then return -1 end
  end
  if #ids >= tonumber(ARGV[5]) then return -2 end
end
local value = redis.call('GET', KEYS[1])
if (value or '') ~= ARGV[1] then return {value} end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
if ids then redis.call('SET', KEYS[2], ids .. ARGV[4], 'PX', ARGV[6]) end
return 1
