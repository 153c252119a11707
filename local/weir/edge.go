package main

import "github.com/weir-limits/weir/functions/edge"

func init() { edgeKey = edge.Key }
