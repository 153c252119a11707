package caller

// Remembered returns how many keys are remembered that are known, and that are not.
func (r *RemoteRecords) Remembered() (known, unknown int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.known.newer) + len(r.known.older), len(r.unknown.newer) + len(r.unknown.older)
}

// Reading returns how many keys are being read.
func (r *RemoteRecords) Reading() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.reads)
}
