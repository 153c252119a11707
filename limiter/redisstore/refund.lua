-- Gives charges back, each as far as that is safe.
--
-- KEYS[1]  the subject
-- ARGV[1]  46 bytes a charge, integers big endian:
--            c17  the limit, as in take.lua
--            B    kind
--            seven I4, which are
--              bucket: TAT and refunds after the charge; what to give back if nothing else
--                has touched the bucket since; what to give back otherwise
--              window: index charged, cost
--              log: newest instant after the charge, cost
--
-- The value is that of take.lua. Returns the number of charges of which something was given back.
local value, args = redis.call('GET', KEYS[1]), ARGV[1]
local unpack, pack, sub = struct.unpack, struct.pack, string.sub
if not value or value:byte() ~= 1 or #value < 2 + 35 * (value:byte(2) or 0) then return 0 end
local new = value
local last, given = 2 + 35 * new:byte(2), 0

for i = 1, #args, 46 do
  local limit, kind, a, b, c, d, e, f, g = unpack('>c17BI4I4I4I4I4I4I4', args, i)
  local at, from = 3, last + 1
  while at < last and sub(new, at, at + 16) ~= limit do
    if new:byte(at + 5) == 4 then from = from + 8 * unpack('>I4', new, at + 31) end
    at = at + 35
  end
  if at < last then
    local s, n, m = unpack('>I4I4I4', new, at + 23)
    if kind == 1 then
      if s ~= a or n ~= b or m ~= c then d, e = f, g end
      if d + e > 0 then
        s, n, m, given = s - d, n - e, m + 1, given + 1
        if n < 0 then s, n = s - 1, n + 4294967296 end
      end
    elseif kind == 4 then
      local charged, first, count = pack('>I4I4', a, b), from, 0
      while first < from + 8 * m and sub(new, first, first + 7) ~= charged do first = first + 8 end
      while first + 8 * count < from + 8 * m and sub(new, first + 8 * count, first + 8 * count + 7) == charged do count = count + 1 end
      if count >= c then
        new = sub(new, 1, first - 1) .. sub(new, first + 8 * c)
        m, given = m - c, given + 1
      end
    elseif s == a and n >= b then
      n, given = n - b, given + 1
    elseif s == a + 1 and m >= b then
      m, given = m - b, given + 1
    end
    new = sub(new, 1, at + 22) .. pack('>I4I4I4', s, n, m) .. sub(new, at + 35)
  end
end

if given == 0 then return 0 end
redis.call('SET', KEYS[1], new, 'KEEPTTL')
return given
