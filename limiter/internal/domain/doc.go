// Package domain has the words of a rate limiter: a [Limit], the [Subject] that it counts, a [Charge], the [Store] that
// keeps the counts, and how a store can fail.
//
// Package limiter has an alias of each exported name, under which other packages use it. The layers of a Limiter use this
// package, because limiter imports them.
package domain
