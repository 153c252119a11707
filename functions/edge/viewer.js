// The viewer function of a distribution (CloudFront Functions, runtime cloudfront-js-2.0). It runs before every request.
// It writes the address of the client, and refuses the callers in a list. It never counts. On any doubt, the request
// passes, and Weir behind the distribution decides. Package edge describes the list.
import cf from 'cloudfront';
import crypto from 'crypto';

async function handler(event) {
  const request = event.request;
  // CloudFront sets viewer.ip from the connection. A field that the client sent is replaced.
  request.headers['weir-viewer-address'] = { value: event.viewer.ip };
  try {
    return (await refusal(request, event.viewer.ip)) || request;
  } catch (e) {
    return request; // no store, or no list in it
  }
}

async function refusal(request, ip) {
  if (request.method === 'OPTIONS') {
    return null;
  }
  const list = cf.kvs();
  const config = JSON.parse(await list.get('config'));
  const key = request.headers[config.h];
  if (config.c && (key || request.headers.authorization) || passes(config.p, request.uri, config.d || 1)) {
    return null;
  }
  const subjects = [address(ip, config.b)];
  if (key && !key.multiValue) {
    subjects.push('key:' + key.value);
  }
  for (let i = 0; i < subjects.length; i++) {
    const hash = crypto.createHmac('sha256', config.k).update(subjects[i]).digest('base64url').slice(0, 22);
    const answer = refuse(await read(list, hash), config.v, Date.now());
    if (answer) {
      allowOrigin(answer.headers, request.headers.origin, config.o || []);
      return answer;
    }
  }
  return null;
}

async function read(list, hash) {
  try {
    return await list.get(hash);
  } catch (e) {
    return ''; // no such entry
  }
}

// The endpoints that no listed limit counts, also below a stage or a base path of some segments. A pattern can match too
// much here: then only the request passes.
function passes(patterns, path, below) {
  if (patterns.length === 0) {
    return false;
  }
  if (/[%;\\]|\/\//.test(path)) {
    return true; // Weir reads such a path in several ways
  }
  const have = segments(path);
  return patterns.some((pattern) => {
    const want = segments(pattern);
    const open = want[want.length - 1] === '*';
    if (open) {
      want.pop();
    }
    for (let at = 0; at <= below; at++) {
      const rest = have.length - want.length - at;
      if ((open ? rest >= 0 : rest === 0) && want.every((segment, i) => i === 0 || segment.charAt(0) === '{' || segment === have[at + i])) {
        return true;
      }
    }
    return false;
  });
}

// The first one is before the first slash.
function segments(path) {
  return path.toLowerCase().replace(/\/$/, '').split('/');
}

// An IPv4 address, also one that is mapped into IPv6, or the network of an IPv6 address.
function address(ip, bits) {
  if (ip.indexOf(':') < 0) {
    return 'ip:' + ip;
  }
  let text = ip;
  const dotted = /^(.*:)(\d+)\.(\d+)\.(\d+)\.(\d+)$/.exec(ip);
  if (dotted) {
    text = dotted[1] + (dotted[2] * 256 + +dotted[3]).toString(16) + ':' + (dotted[4] * 256 + +dotted[5]).toString(16);
  }
  const halves = text.split('::');
  const head = halves[0] ? halves[0].split(':') : [];
  const tail = halves[1] ? halves[1].split(':') : [];
  const groups = head.concat(Array(8 - head.length - tail.length).fill('0'), tail).map((group) => parseInt(group, 16));
  if (groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff) {
    return 'ip:' + [groups[6] >> 8, groups[6] & 255, groups[7] >> 8, groups[7] & 255].join('.');
  }
  const network = groups.map((group, i) => group & ~(0xffff >> Math.min(16, Math.max(0, bits - 16 * i))));
  return 'ip:' + network.map((group) => group.toString(16)).join(':') + '/' + bits;
}

// The wait of the limiter's answer, in milliseconds: up to 3 % longer, so that callers do not all return at once. A
// period of a calendar ends for all of them.
function jitter(wait, window, period) {
  if (wait <= 10000 || period) {
    return wait;
  }
  return Math.max(wait, Math.min(wait + Math.random() * Math.min(wait * 0.03, 60000), window));
}

// A page may read the answer if its origin is allowed.
function allowOrigin(headers, origin, allowed) {
  if (allowed.length === 0) {
    return;
  }
  headers.vary = { value: 'Origin' };
  const all = allowed[0] === '*';
  if (origin && (all || allowed.indexOf(origin.value.toLowerCase()) >= 0)) {
    headers['access-control-allow-origin'] = { value: all ? '*' : origin.value };
    headers['access-control-expose-headers'] = { value: exposed };
  }
}

const exposed = 'Retry-After, X-Ratelimit-Limit, X-Ratelimit-Remaining, X-Ratelimit-Reset, Ratelimit-Policy, Ratelimit, Weir-Degraded';

function refuse(entry, version, now) {
  const parts = /^([\da-z]{8,9}) ([\da-z]{1,11}) ([\da-z]{1,6}) ([\da-z]{1,6}) ([\da-z]{1,6}) ([a-z0-9_-]{1,32}) ([\da-z]{1,7})( p)?( [\w-]{8})?$/.exec(entry);
  if (!parts) {
    return null;
  }
  const until = parseInt(parts[1], 36), limit = parseInt(parts[4], 36), window = parseInt(parts[5], 36);
  if (parseInt(parts[2], 36) !== version || now >= until) {
    return null;
  }
  const wait = Math.ceil(jitter(until - now, window * 1000, parts[8]) / 1000);
  const name = parts[6];
  const fields = {
    'retry-after': wait, 'x-ratelimit-limit': parseInt(parts[3], 36), 'x-ratelimit-remaining': 0, 'x-ratelimit-reset': parseInt(parts[7], 36),
    'ratelimit-policy': `"${name}";q=${limit};w=${window}`, ratelimit: `"${name}";r=0;t=${wait}`,
    'cache-control': 'no-store', 'content-type': 'application/problem+json', 'weir-edge': 'refused',
  };
  const headers = {};
  Object.keys(fields).forEach((field) => {
    headers[field] = { value: String(fields[field]) };
  });
  const problem = {
    type: 'https://iana.org/assignments/http-problem-types#quota-exceeded', title: 'Too Many Requests', status: 429, error: 'rate_limit_exceeded',
    message: `Too many requests. Retry after ${wait} second${wait === 1 ? '' : 's'}.`, limit: limit, window: window + 's', 'violated-policies': [name],
  };
  return { statusCode: 429, statusDescription: 'Too Many Requests', headers: headers, body: { encoding: 'text', data: JSON.stringify(problem) } };
}
