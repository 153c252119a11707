package storetest

// Must returns value and panics on an error. It makes a store or a Limiter of options that
// are constant in a test: Must(memstore.New(memstore.Options{})).
func Must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
