package main

// must returns value and panics on an error: the options of what is measured are constant.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
