package storetest

// Must returns value, or panics on an error. It is for stores and Limiters whose options are constants
// of a test: Must(memstore.New(memstore.Options{})).
func Must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
