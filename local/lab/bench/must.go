package main

// must returns the value. It panics on an error: all options are constants, so an error is a mistake in
// this program.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
