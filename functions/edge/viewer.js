// Runs in CloudFront (cloudfront-js-2.0) before each request: writes the client's address, and refuses callers whom an
// operator has blocked. A key of the KeyValueStore is the SHA-256 of "ip:" and an address, whose IPv6 form is the /64, or
// of "apikey:" and a key, in hexadecimal digits. Its value is the end of the block, in Unix seconds. The function reads no
// path, so its time does not depend on one. The engine rejects `await` as an argument of a call.
import cf from 'cloudfront';
import crypto from 'crypto';

const longestKey = 256; // characters of an API key; Weir accepts no longer one
const store = cf.kvs();

// network returns an IPv4 address as it is, and the /64 of an IPv6 address in its shortest form.
function network(ip) {
  if (ip.indexOf(':') < 0) {
    return ip;
  }
  const halves = ip.split('::');
  let groups = halves[0] ? halves[0].split(':') : [];
  if (halves.length > 1) {
    const tail = halves[1] ? halves[1].split(':') : [];
    while (groups.length + tail.length < 8) {
      groups.push('0');
    }
    groups = groups.concat(tail);
  }
  groups = groups.slice(0, 4).map(function (group) { return parseInt(group, 16).toString(16); });
  while (groups[groups.length - 1] === '0') {
    groups.pop(); // "::" has the last zeros
  }
  return groups.join(':') + '::/64';
}

// blocked reports whether a block of the subject has not ended. Without an entry, or if the store fails, nobody is blocked.
async function blocked(subject) {
  const key = crypto.createHash('sha256').update(subject).digest('hex');
  let end = '';
  try {
    end = await store.get(key);
  } catch (e) {
    return false;
  }
  return Number(end) > Date.now() / 1000;
}

async function handler(event) {
  const request = event.request;
  const headers = request.headers;
  headers['cloudfront-viewer-address'] = { value: event.viewer.ip + ':0' }; // over what the client sent; the port is not known
  let refused = await blocked('ip:' + network(event.viewer.ip));
  const key = headers['x-api-key'];
  if (!refused && key && key.value.length <= longestKey) {
    refused = await blocked('apikey:' + key.value);
  }
  if (!refused) {
    return request;
  }
  return {
    statusCode: 403,
    statusDescription: 'Forbidden',
    headers: { 'content-type': { value: 'application/problem+json' }, 'cache-control': { value: 'no-store' } },
    body: '{"type":"about:blank","title":"Forbidden","status":403,"detail":"The operator of this API has blocked this caller."}',
  };
}
