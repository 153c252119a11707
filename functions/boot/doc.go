// Package boot creates an environment from environment variables. It reads and validates the variables
// ([Load]), opens clients ([Config.OpenStore]) and returns a complete [lambdahttp.Environment]
// ([Config.Environment]). No other package reads the variables. The functions and the local gateway use
// the same code.
package boot
