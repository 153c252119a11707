package runtimeproxy

// ReadPrelude is readPrelude for tests.
var ReadPrelude = readPrelude
