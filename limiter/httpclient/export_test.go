package httpclient

// Remembered returns the numbers of known quotas and routes.
func (t *Transport) Remembered() (quotas, routes int) { return len(t.quotas), len(t.routes) }
