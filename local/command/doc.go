// Package command has the parts of a command line that weir and weir-tools share: exit statuses, usage
// errors, JSON, colours and completion.
package command
