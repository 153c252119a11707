-- Gives back charges, each as far as that is safe.
--
-- KEYS[1]  the subject
-- ARGV[1]  49 bytes a charge:
--            c17  the limit, as in take.lua
--            B    kind
--            bucket: TAT after the charge I5 s, I4 ns, refunds after it I4; what to give
--              back if nothing else touched the bucket I5 s, I4 ns, else I5 s, I4 ns
--            window: index charged I5, cost I4, and zeroes
--
-- The value is that of take.lua. Returns 1 if anything was given back.
local value, args = redis.call('GET', KEYS[1]), ARGV[1]
if not value or value:byte() ~= 1 or #value % 36 ~= 1 then return 0 end
local unpack, pack, sub = struct.unpack, struct.pack, string.sub
local new = value

for from = 1, #args, 49 do
  local limit, kind, s, n, m, all_s, all_ns, part_s, part_ns = unpack('<c17BI5I4I4I5I4I5I4', args, from)
  local at = 2
  while at < #new and sub(new, at, at + 16) ~= limit do at = at + 36 end
  if at < #new then
    local version, hs, hn, hm = unpack('<I6I5I4I4', new, at + 17)
    local given = true
    if kind == 1 then
      if hs ~= s or hn ~= n or hm ~= m then all_s, all_ns = part_s, part_ns end
      given = all_s + all_ns > 0
      hs, hn, hm = hs - all_s, hn - all_ns, hm + 1
      if hn < 0 then hs, hn = hs - 1, hn + 1000000000 end
    elseif hs == s and hn >= n then
      hn = hn - n
    elseif hs == s + 1 and hm >= n then
      hm = hm - n
    else
      given = false
    end
    if given then
      new = sub(new, 1, at - 1) .. limit .. pack('<I6I5I4I4', version, hs, hn, hm) .. sub(new, at + 36)
    end
  end
end

if new == value then return 0 end
redis.call('SET', KEYS[1], new, 'KEEPTTL')
return 1
