// Package checkout is the clone of this repository that a command runs in. It knows the files of
// the repository, and the local files in .weir that are in no commit (signing key, sample API keys,
// metrics).
package checkout
