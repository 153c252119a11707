package loopback_test

import (
	"testing"

	"github.com/weir-limits/weir/local/loopback"
)

func TestURL(t *testing.T) {
	for address, want := range map[string]bool{
		"http://127.0.0.1:8080": true, "http://localhost/x": true, "http://[::1]:1": true, "http://127.9.9.9": true,
		"": false, "127.0.0.1:8080": false, "http://localhost.example": false, "http://127.0.0.1.example": false, "http://192.0.2.1": false,
		"http://0.0.0.0": false, ":": false,
	} {
		if got := loopback.URL(address); got != want {
			t.Errorf("%q: got %t, want %t", address, got, want)
		}
	}
}

func TestHost(t *testing.T) {
	for host, want := range map[string]bool{
		"127.0.0.1:8080": true, "localhost": true, "[::1]:80": true, "::1": true,
		"": false, "evil.example:8080": false, "localhost.evil.example": false, "192.168.1.7:8080": false,
	} {
		if got := loopback.Host(host); got != want {
			t.Errorf("%q: got %t, want %t", host, got, want)
		}
	}
}
