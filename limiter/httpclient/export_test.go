package httpclient

// Remembered returns the numbers of quotas and routes in the book.
func (t *Transport) Remembered() (quotas, routes int) {
	return len(t.book.quotas), len(t.book.routes)
}
