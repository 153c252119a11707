// Package stores links the stores that are not part of package boot. A program imports it for its side effects: each
// store registers itself (boot.RegisterStore). The build tag noredis leaves out Redis.
package stores
