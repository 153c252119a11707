// Package serve runs the APIs of a CloudFormation template on this machine. It uses the same
// functions as at AWS, in this process or, as Lambda does, in separate processes. The first API
// also has a site for people: the console and the endpoints of package operator.
//
// A [Server] starts in this order. It reads the rules and the template, opens the ports, creates
// the keys of the checkout and starts the store's server. It then builds the functions and the
// gateway, warms the store and prints all addresses. It serves until its context ends.
package serve
