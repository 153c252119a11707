// Package table has what a process keeps of subjects, for all layers of a Limiter: the states that it last saw in the
// store ([Cache]), leases and counters ([Trackers]), counts of an outage ([OutageCount]) and notices. These parts outlive each
// request and each version of the rules. They decide nothing.
package table
