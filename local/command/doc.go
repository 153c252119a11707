// Package command runs a command line: exit statuses, usage errors, JSON, colours and completion
// are the same in weir and in weir-tools.
package command
