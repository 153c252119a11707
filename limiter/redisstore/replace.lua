-- Replaces a value if no other process has changed it since it was read.
--
-- KEYS[1]  key of the subject
-- ARGV[1]  the value that was read; empty if there was none
-- ARGV[2]  the new value
-- ARGV[3]  time to live of KEYS[1] in ms
--
-- Returns B 1 if it replaced the value. Otherwise it returns B 0 and the present value.
local value = redis.call('GET', KEYS[1])
if (value or '') ~= ARGV[1] then return '\0' .. (value or '') end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return '\1'
