//go:build !linux

package testservers

func detach(string) {}
