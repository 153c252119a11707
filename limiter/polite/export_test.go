package polite

// Remembered returns the sizes of the book.
func (t *Transport) Remembered() (quotas, routes int) {
	return len(t.book.quotas), len(t.book.routes)
}
