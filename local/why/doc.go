// Package why answers which callers were refused, by which limit, and for how long. It reads the lines of
// refusals that the functions write (telemetry.DecisionLine): a local gateway keeps them in a [RefusalLog]. On AWS
// they are in log groups, which the stack's saved queries read.
//
// The lines have a hash of the caller. A RefusalLog knows the names of callers whose requests were decided in its
// process. A question about a caller is answered by its hash.
package why
