package contract

import "strings"

// WithoutShare is the suffix of a region in VariableRegions that has no share of limits, because it joins or leaves the
// list.
const WithoutShare = ":0"

// RegionNames returns the names of regions in VariableRegions.
func RegionNames(regions []string) (names []string) {
	for _, region := range regions {
		names = append(names, strings.TrimSuffix(region, WithoutShare))
	}
	return names
}
