package command

import (
	"fmt"
	"strconv"
)

// Port is a flag with the port of the first of two APIs. The second API has the next port.
type Port int

const maxPort = 65534

// String implements pflag.Value.
func (p *Port) String() string { return strconv.Itoa(int(*p)) }

// Type implements pflag.Value.
func (p *Port) Type() string { return "int" }

// Set implements pflag.Value.
func (p *Port) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxPort {
		return fmt.Errorf("want 1 to %d", maxPort)
	}
	*p = Port(n)
	return nil
}
