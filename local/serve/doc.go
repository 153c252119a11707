// Package serve runs the APIs of a CloudFormation template on this machine, with the functions that
// run at AWS: in this process or, as Lambda does, in processes of their own. Before the first API
// it serves a site for people: the console, and the questions of package operator.
//
// A [Server] starts in this order: it reads the rules and the template, takes the ports, makes the
// keys of the checkout, starts the server of the state, builds the functions and the gateway before
// them, warms the store, prints where everything is, and answers until its context ends.
package serve
