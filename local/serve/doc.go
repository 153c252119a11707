// Package serve runs the APIs of a CloudFormation template on this machine. It runs the same
// functions as AWS does, in this process. With an [Upstream],
// it limits the requests to a server instead. The first API also serves a site below /_weir/: the
// console and the endpoints of package operator.
//
// With regions, it runs the APIs once for each region. Each region has a store of its own. The
// others reach it over a link with a round trip, which a switch can cut. The limiter decides and
// moves share as in a deployment.
//
// A [Server] starts in this order. It reads the rules and the template, opens the ports, creates
// the keys of the checkout and starts the store's server. It then builds the functions and the
// gateway, warms up the store and prints all addresses. It serves until its context ends.
package serve
