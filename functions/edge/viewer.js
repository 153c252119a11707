// The viewer function of a distribution (CloudFront Functions, runtime cloudfront-js-2.0). It runs before every request.
// CloudFront sets viewer.ip from the connection. A field that the client sent is replaced.
function handler(event) {
  const request = event.request;
  request.headers['weir-viewer-address'] = { value: event.viewer.ip };
  return request;
}
