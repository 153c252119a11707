// Package boot builds an environment from its variables. It is the only reader of
// them: the functions and the local gateway start the same code by it.
package boot
