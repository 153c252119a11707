package main

import "testing"

func TestSeconds(t *testing.T) {
	const hour, day = 3600, 86400
	for s, want := range map[float64]string{
		0.25: "250ms", 60: "1m", hour: "1h", 47*hour + 60: "47h1m", 2 * day: "2d", 7*day + 8*hour + 57*60: "7d8h57m",
		30 * day: "30d", 2*day + 1.4: "2d1s", 3*day - 0.4: "3d", 100*day + hour: "100d1h",
	} {
		if got := seconds(s); got != want {
			t.Errorf("seconds(%v): got %q, want %q", s, got, want)
		}
	}
}
