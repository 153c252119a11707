package template

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-limits/weir/limiter/algo"
)

// The default throttle of an AWS account (developer guide, "Quotas"). accountBurst applies to a
// setting that has only a rate, and accountRate to one that has only a burst.
const (
	accountRate  = 10_000 // requests per second
	accountBurst = 5_000
)

// readThrottle returns the token bucket for the rate and the burst in q, or nil if both are absent.
func readThrottle(q *properties) algo.Machine {
	const rateName, burstName = "ThrottlingRateLimit", "ThrottlingBurstLimit"
	if !q.has(rateName) && !q.has(burstName) {
		return nil
	}
	rate := readRate(q, rateName)
	burst := q.number(burstName, accountBurst, 1, algo.MaxRequests)
	// RateLimit can be a fraction such as 0.5, but algo.Rate has whole requests. A window of 1000
	// seconds expresses it.
	bucket, err := algo.New(algo.Rate{
		Algorithm: algo.TokenBucket, Requests: int64(math.Round(rate * 1000)), Window: 1000 * time.Second, Burst: int64(burst),
	})
	if err != nil {
		q.p.add(q.at(burstName), "%v", err)
		return nil
	}
	return bucket
}

func readRate(q *properties, name string) float64 {
	v, ok := q.value(name)
	if !ok {
		return accountRate
	}
	rate, err := strconv.ParseFloat(fmt.Sprint(v), 64)
	if err != nil || !(rate >= 0.001 && rate <= 1e6) {
		q.refuse(name, v, "a number of requests a second, from 0.001 to 1000000")
		return accountRate
	}
	return rate
}

type methodSettings struct {
	q      *properties
	bucket algo.Machine
}

// allMethods is the key of the settings for all methods that have no settings of their own.
const allMethods = "* *"

// readMethodSettings returns the settings of a stage. The key has the form of settingsKey.
func readMethodSettings(q *properties) map[string]methodSettings {
	all := map[string]methodSettings{}
	for _, settings := range q.objects("MethodSettings") {
		settings.inert("DataTraceEnabled", "LoggingLevel", "MetricsEnabled")
		settings.only("CachingEnabled", "false", false)
		verb, pointer := settings.required("HttpMethod"), settings.required("ResourcePath")
		key, bucket := settingsKey(verb, pointer), readThrottle(settings)
		settings.done()
		if _, twice := all[key]; twice {
			settings.refuse("ResourcePath", pointer, "a path and method that have no settings yet")
		}
		if verb != "" && pointer != "" {
			all[key] = methodSettings{settings, bucket}
		}
	}
	return all
}

// settingsKey returns the key of a method's settings. The settings contain the path as a JSON
// pointer, such as /~1api~1items. The root path is / or /~1.
func settingsKey(verb, pointer string) string {
	path := strings.ReplaceAll(strings.TrimPrefix(pointer, "/"), "~1", "/")
	if path == "" {
		path = "/"
	}
	return verb + " " + path
}

// setThrottles sets the token bucket of every method, from the settings of the method or else of
// the stage. Assumed: the settings of the stage also apply if those of the method have no rate and
// no burst.
func (a *REST) setThrottles() {
	used := []string{allMethods}
	for _, resource := range a.Resources {
		for verb, method := range resource.Methods {
			key := verb + " " + resource.Path
			used = append(used, key)
			bucket := a.settings[key].bucket
			if bucket == nil {
				bucket = a.settings[allMethods].bucket
			}
			method.Throttle = bucket
		}
	}
	for _, key := range slices.Sorted(maps.Keys(a.settings)) {
		if !slices.Contains(used, key) {
			a.settings[key].q.refuse("ResourcePath", key, "* and /*, or a method of "+a.ID+" with its path")
		}
	}
}
