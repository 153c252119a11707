package command

import (
	"fmt"
	"strconv"
)

// Number is a flag with a number that must be valid. An empty text means 0.
type Number struct {
	To    *int
	Want  string // describes the valid numbers
	Valid func(n int) bool
}

// Between returns a flag with a number from least to most.
func Between(to *int, least, most int) Number {
	return Number{to, fmt.Sprintf("%d to %d", least, most), func(n int) bool { return n >= least && n <= most }}
}

// Port returns a flag with the port of the first of two APIs. The second API has the next port.
func Port(to *int) Number { return Between(to, 1, 65534) }

// String implements pflag.Value.
func (v Number) String() string { return strconv.Itoa(*v.To) }

// Type implements pflag.Value.
func (v Number) Type() string { return "int" }

// Set implements pflag.Value.
func (v Number) Set(text string) error {
	n, err := strconv.Atoi("0" + text)
	if err != nil || !v.Valid(n) {
		return fmt.Errorf("want %s", v.Want)
	}
	*v.To = n
	return nil
}
