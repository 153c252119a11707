// Package regions makes several regions of one process, for a local run. Each region has a store of its own. The others
// reach it over a link with a round trip, which a switch can cut. A handler serves what the page Regions of the console
// shows: the regions, the share of callers in each of them, and the last transfers.
//
// The limiter decides and moves share as in a deployment. No deployed function contains this package.
package regions
