package main

// must returns value. It panics on an error, because all options are constant and must be valid.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
