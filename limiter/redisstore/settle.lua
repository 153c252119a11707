-- Corrects charges of a subject: refunds some, each as far as this is safe, and forces others.
--
-- KEYS[1]  key of the subject
-- ARGV[1]  the charges; integers are big endian. A charge has:
--            seven I4, for a refund
--              bucket: TAT after the charge (2 I4); refunds after the charge; what to refund if the bucket
--                is unchanged since (2 I4); what to refund otherwise (2 I4)
--              window: index charged, cost, high half of the cost
--              log: newest instant after the charge (2 I4), cost
--              slots: entry of the last slot that the charge took (2 I4), cost
--            seven I4, for a forced charge
--              bucket: now (2 I4); increment (2 I4); latest TAT of a debt (2 I4)
--              window: index, cost; latest index of honest clocks; largest count of a debt; high halves of the
--                cost and of that count
--            B: 1 for a forced charge, 0 for a refund
--            the limit, as in take.lua
-- ARGV[2]  time to live of KEYS[1] in ms after a forced charge
--
-- take.lua describes the value of the subject.
--
-- Returns the number of refunds that returned something. Otherwise it changes nothing and returns
--   the value in an array, if it cannot make a forced charge. The caller makes these rare charges: they
--     exceed the largest debt, or the value has no such limit
local value, args = redis.call('GET', KEYS[1]), ARGV[1]
local unpack, pack, sub, byte = struct.unpack, struct.pack, string.sub, string.byte
if not value or byte(value) ~= 2 or #value < 8 then return {value} end
local new, given, forced, i = value, 0, 0, 1

while i < #args do
  local a, b, c, d, e, f, g, force, tag = unpack('>I4I4I4I4I4I4I4BB', args, i)
  local limit = sub(args, i + 30, i + 34 + tag % 16 * (tag > 159 and 3 or 1)) -- without the tag
  i, forced = i + 30 + #limit, forced + force
  local large = tag > 31 and tag < 64 and tag + 48 or tag -- tag of the same window with large counts
  local slots = tag > 63 and tag < 80 and byte(limit, #limit) == 0 -- only the id must match: the parameters of slots can have changed
  local next, count, at, refunds, behind = 9, 0 -- at: position of the state; behind: position after the limit
  while next <= #new do
    local t = byte(new, next)
    local extra = t % 16
    local size = byte('\14\14\14\18\24\24\7\17\5\24', (t - extra) / 16)
    if t > 159 then extra = 3 * extra end
    if not size or next + size + extra > #new + 1 then return {value} end
    if t < 112 or t > 159 then
      count = count + 1
      if at then behind = behind or next end
    elseif t == 144 and at and not behind then
      refunds = next + 1
    end
    if t > 63 and t < 80 then size = size + 8 * unpack('>I4', new, next + 14 + extra) end
    if slots then
      if t > 63 and t < 80 and sub(new, next + 1, next + 5) == sub(limit, 1, 5) and byte(new, next + 5 + extra) == 0 then at = next + 6 + extra end
    elseif (t == tag or t == large) and sub(new, next + 1, next + #limit) == limit then
      at, tag = next + 1 + #limit, t
    end
    next = next + size + extra
  end
  if next ~= #new + 1 or count ~= byte(new, 2) then return {value} end
  behind = behind or next
  if not at or force == 1 and tag > 63 and tag < 80 then -- the value has no such limit, or the limit is a log
    if force == 1 then return {value} end
  elseif force == 1 and tag < 32 then
    local s, n = unpack('>I4I4', new, at)
    if s < a or s == a and n < b then s, n = a, b end
    s, n = s + c, n + d
    if n >= 4294967296 then s, n = s + 1, n - 4294967296 end
    if s > e or s == e and n > f then return {value} end
    new = sub(new, 1, at - 1) .. pack('>I4I4', s, n) .. sub(new, at + 8)
  elseif force == 1 then
    local layout = tag > 79 and '>I4I7I7' or '>I4I2I2'
    local s, n, m = unpack(layout, new, at)
    b, d = b + e * 4294967296, d + f * 4294967296
    if s > c then return {value} end
    if s < a then
      if s == a - 1 then m = n else m = 0 end
      s, n = a, 0
    end
    if n + b > d then return {value} end
    local state = pack(layout, s, n + b, m)
    new = sub(new, 1, at - 1) .. state .. sub(new, at + #state)
  elseif tag < 32 then
    local s, n = unpack('>I4I4', new, at)
    local m = refunds and unpack('>I4', new, refunds) or 0
    if s ~= a or n ~= b or m ~= c then d, e = f, g end
    if d + e > 0 then
      s, n, given = s - d, n - e, given + 1
      if n < 0 then s, n = s - 1, n + 4294967296 end
      if not refunds then
        new = sub(new, 1, behind - 1) .. '\144\0\0\0\0' .. sub(new, behind)
        refunds = behind + 1
      end
      new = sub(new, 1, at - 1) .. pack('>I4I4', s, n) .. sub(new, at + 8, refunds - 1) .. pack('>I4', m + 1) .. sub(new, refunds + 4)
    end
  elseif slots then -- the charge took the entries up to the last one
    local m = unpack('>I4', new, at + 8)
    local first, last = at + 12, at + 12 + 8 * m
    local function before(position) -- returns the time from an entry to the last entry of the charge
      local hi, lo = unpack('>I4I4', new, position)
      return (a - hi) * 4294967296 + b - lo
    end
    while first < last and before(first) >= c do first = first + 8 end
    local rest = first
    while rest < last and before(rest) >= 0 do rest = rest + 8 end
    if rest > first then
      new = sub(new, 1, at + 7) .. pack('>I4', m - (rest - first) / 8) .. sub(new, at + 12, first - 1) .. sub(new, rest)
      given = given + 1
    end
  elseif tag > 63 and tag < 80 then
    local m, charged = unpack('>I4', new, at + 8), pack('>I4I4', a, b)
    local first, last, count = at + 12, at + 12 + 8 * m, 0
    while first < last and sub(new, first, first + 7) ~= charged do first = first + 8 end
    while first + 8 * count < last and sub(new, first + 8 * count, first + 8 * count + 7) == charged do count = count + 1 end
    if count >= c then
      new = sub(new, 1, at + 7) .. pack('>I4', m - c) .. sub(new, at + 12, first - 1) .. sub(new, first + 8 * c)
      given = given + 1
    end
  else
    local layout = tag > 79 and '>I4I7I7' or '>I4I2I2'
    local s, n, m = unpack(layout, new, at)
    b = b + c * 4294967296
    if s == a and n >= b then
      n, given = n - b, given + 1
    elseif s == a + 1 and m >= b then
      m, given = m - b, given + 1
    end
    local state = pack(layout, s, n, m)
    new = sub(new, 1, at - 1) .. state .. sub(new, at + #state)
  end
end

if given == 0 and forced == 0 then return 0 end
if forced == 0 or redis.call('PTTL', KEYS[1]) > tonumber(ARGV[2]) then
  redis.call('SET', KEYS[1], new, 'KEEPTTL')
else
  redis.call('SET', KEYS[1], new, 'PX', ARGV[2])
end
return given
