package main

import (
	"strings"
	"testing"
)

// make finds mistakes in CONTEXT and in stages.json before it builds the functions.
func TestCheck(t *testing.T) {
	for settings, want := range map[string]string{
		"arch=arm64 stage=prod basePath=/v1,/orders/v2": "", "arch=arm64 stag=prod": "-c stag=prod: want a setting: ",
		"arch=arm64 throttle=0": "-c throttle=0: want a whole number of at least 1", "arch=arm64 store=etcd": "-c store=etcd: want dynamodb or elasticache",
	} {
		if err := check(strings.Fields(settings)); (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got error %v, want %s", settings, err, want)
		}
	}
}
