package storetest

// Must returns value and panics if err is not nil. Use it for stores and Limiters with constant
// options: Must(memstore.New(memstore.Options{})).
func Must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
