package caller

// Remembered returns how many keys are kept that are known, and that are not.
func (r *RemoteRecords) Remembered() (known, unknown int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.known.Len(), r.unknown.Len()
}

// Reading returns how many keys are being read.
func (r *RemoteRecords) Reading() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reads
}
