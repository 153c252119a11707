// Package boot builds an environment from its environment variables: it reads and validates them
// ([Load]), opens clients ([Config.OpenStore]) and returns a complete [lambdahttp.Environment]
// ([Config.Environment]). No other package reads the variables. The functions and the local
// gateway start the same code.
package boot
