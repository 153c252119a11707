package command

import "testing"

// An empty text means 0, which is valid for some flags.
func TestNumber(t *testing.T) {
	var n int
	for _, c := range []struct {
		flag Number
		text string
		want int // -1: an error
	}{
		{Between(&n, 0, 10), "", 0}, {Between(&n, 0, 10), "0", 0}, {Between(&n, 0, 10), "10", 10}, {Between(&n, 0, 10), "11", -1},
		{Between(&n, 0, 10), "-2", -1}, {Between(&n, 0, 10), "ten", -1}, {Port(&n), "", -1}, {Port(&n), "65534", 65534}, {Port(&n), "65535", -1},
	} {
		n = -1
		if err := c.flag.Set(c.text); n != c.want || (err == nil) != (n >= 0) {
			t.Errorf("%q, want %s: got %d, error %v, want %d", c.text, c.flag.Want, n, err, c.want)
		}
	}
}
