// Package checkout is the clone of this repository that a command runs in: its files, and what is
// this machine's own and in no commit, below .weir (signing key, sample API keys, metrics).
package checkout
