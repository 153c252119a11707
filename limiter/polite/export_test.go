package polite

// Remembered returns how much is remembered.
func (t *Transport) Remembered() (quotas, routes int) {
	return len(t.book.quotas), len(t.book.routes)
}
