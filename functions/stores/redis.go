//go:build !noredis

package stores

import _ "github.com/weir-limits/weir/functions/rediscache" // registers itself for redis and rediss
